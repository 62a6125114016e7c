"""The config: every mistake at its place, every default as documented, and no secret in the clear."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import cases
from tests.unit.rules.test_files import folder_of_somebody, without_rights
from worker.cli.page import KeyRing
from worker.config import Config, load_config, read_config, resolve
from worker.config import load as loading
from worker.config.addresses import host_and_port
from worker.config.models import SecretPlace
from worker.model.errors import InputErrors, Problem, UsageError
from worker.web.door import NOBODY, Key

SHIPPED = Path(__file__).parents[2] / "config.yaml"
REMOTE = "api: {base_url: https://host/api/v3}\n"


def read(text: str) -> Config:
    return read_config(Path("folder/c.yaml"), text)


def mistakes(text: str) -> list[str]:
    try:
        read(text)
    except InputErrors as errors:
        return [str(one).removeprefix("folder/") for one in errors.problems]
    return []


def mistake(text: str) -> Problem:
    """The only one."""
    with pytest.raises(InputErrors) as caught:
        read(text)
    [found] = caught.value.problems
    return found


@cases(
    "text, message",
    ("- a", "1:1: a config is a mapping, such as `mode: live`"),
    ("a: [", "1:5: not valid YAML: the file ends inside of a bracket"),
    ("pol: {}", "1:1: unknown key 'pol' in the config; did you mean 'poll'?"),
    ("facts: {a: {get: /x, every: 10}}", "1:29: facts.a.every: '10' is not a duration"),
    ("facts: {a: {get: /x, every: 0s}}", "1:29: facts.a.every: '0s' is too short"),
    ("facts: {a: {get: /x, type: string}}", "1:28: facts.a.type is one of number, text, bool, list, record"),
    ("notify: [{url: {env: A}, onn: [x]}]", "1:26: unknown key 'onn' in an item of notify; did you mean"),
    ("facts: {a: {get: /x, value: 'a[].lenght(b)'}}", "1:29: facts.a.value: JMESPath has no function lenght; did"),
    ("poll: {interval: 2s}", "1:18: poll.interval: '2s' is too short; the service asks"),
    ('safety: {writes_per_hour: "120"}', "1:27: safety.writes_per_hour must be a whole number, and this"),
    ("mode: alive", "1:7: mode is one of shadow, approve, live, not 'alive'; did you mean 'live'?"),
    ("partners: discovr", "1:11: partners: write `discover` or a list of partner ids"),
    ("partners: []", "1:11: partners: write `discover` or a list of partner ids"),
    ("partners: [[a]]", "1:12: an item of partners must be a text"),
    ("partners: [a, 12]", "1:15: an item of partners must be a text, as in partner-id-the-hall; a number"),
    ("partners: [discover]", "1:12: an item of partners: 'discover' is no partner id"),
    ("partners: [a, b, a]", "1:18: the partner 'a' is listed already"),
    ("partners: ['a b']", "1:12: an item of partners: 'a b' is no partner id"),
    ("partners: [ä]", "1:12: an item of partners: 'ä' is no partner id"),
    ("partners: ['..']", "1:12: an item of partners: '..' is no partner id"),
    ("operator_prefix: a/b", "1:18: operator_prefix: 'a/b' is no partner id"),
    ("partners: [a/b]", "1:12: an item of partners: 'a/b' is no partner id"),
    (
        "notify: [{name: a, url: {env: A}, on: [surge]}, {name: a, url: {env: B}, on: [surge]}]",
        "1:56: the name 'a' is taken",
    ),
    ("notify: [{url: 'tel://1', on: [surge]}]", "1:16: notify.url must not stand in the file itself"),
    ("web: {listen: 8080}", "1:15: web.listen must be HOST:PORT, such as 127.0.0.1:8080"),
    ("web: {listen: here}", "1:15: web.listen must be HOST:PORT, such as 127.0.0.1:8080"),
    ("facts: {event: {get: /x}}", "1:9: the fact's name 'event' is taken"),
    ("facts: {in: {get: /x}}", "1:9: the fact's name 'in' is taken"),
    ("facts: {a-b: {get: /x}}", "1:9: the fact's name 'a-b' is no name: letters, digits and _"),
    ("facts: {a: {get: x}}", "1:18: facts.a.get is a path that begins with /"),
    ("facts: {a: {get: '/x#y'}}", "1:21: facts.a.get has '#' in it, which is written %23"),
    ("facts: {a: {get: /auth/x}}", "1:18: facts.a.get must not be a path of /auth"),
    ("facts: {a: {get: /%61uth/x}}", "1:19: facts.a.get has '%61' in it"),
    ("facts: {a: {get: '/%73etup_processes/{eid}'}}", "1:20: facts.a.get has '%73' in it"),
    ("facts: {a: {get: '/./setup_processes/{eid}'}}", "1:19: facts.a.get has '/.' in it"),
    ("facts: {a: {get: /x/..}}", "1:20: facts.a.get has '/..' in it"),
    ("facts: {a: {get: /x, value: '" + "[" * 3000 + "'}}", "1:29: facts.a.value: not a JMESPath"),
    ("facts: {a: {get: /x%2f..%2fauth}}", "1:20: facts.a.get has '%2f' in it"),
    ("facts: {a: {get: '/events/{eid}/client_campaign_status/task'}}", "1:18: facts.a.get must not be a task"),
    ('facts: {a: {get: "/x/{id}"}}', "1:22: facts.a.get: nothing fills in {id}; did you mean 'eid'?"),
    (
        "facts: {a: {get: /campaign_results/}}",
        "1:18: facts.a.get: /campaign_results/ turns a partner's token away (error.auth.not_authorized)",
    ),
    (
        "facts: {a: {get: /auth/users/csv_export}}",
        "1:18: facts.a.get: /auth/users/csv_export turns a partner's token away (error.unauthorized or ",
    ),
    (
        "facts: {a: {get: '/adplatform_targeting/suggested_radius?location=Gent&distance_unit=km'}}",
        "1:18: facts.a.get: distance_unit is mile or kilometer, not km",
    ),
    ('facts: {a: {get: /x, value: "a["}}', "1:29: facts.a.value: not a JMESPath: "),
    ("api: {timeout: 1ms}", "1:16: api.timeout: '1ms' is too short"),
    ("api: {timeout: 100d}", "1:16: api.timeout: '100d' is too long"),
    ("ledger: postgres//x", "1:9: ledger must be sqlite:///FILE"),
    ("ledger: postgresql://ann@db/x", "1:9: ledger is a database, and `state_dir` is missing"),
    ("ledger: postgresql://ann@db/x", "1:9: ledger is shared, and each worker would have an embedded sandbox"),
    ("state_dir: s\nledger: postgresql:///x", "2:9: ledger names no server or no database"),
    ("state_dir: s\nledger: postgresql://ann@db:/x", "2:9: ledger names no server or no database"),
    ("state_dir: s\nledger: postgresql://ann@db/x?port=54e2", "2:9: ledger names no server or no database"),
    ("ledger: postgresql://ann:hidden@db/x", "1:9: ledger must not hold a password"),
    ("ledger: postgresql://db/x?pass%77ord=hidden", "1:9: ledger must not hold a password"),
    (
        "ledger: postgresql://db/x?sslmode=verify",
        "1:9: ledger: there is no sslmode of this name; did you mean 'verify-ca'?",
    ),
    ("ledger: 'sqlite:///'", "1:9: ledger must be sqlite:///FILE"),
    ("api: {base_url: sandbx}", "1:17: api.base_url is not an address"),
    ("api: {base_url: 'https://[x'}", "1:17: api.base_url is not an address"),
    ("api: {base_url: http://host/api/v3}", "1:17: api.base_url must begin with https://"),
    ("api: {cr_url: 'https://u:p@host'}", "1:15: api.cr_url must not hold a user name or password"),
    ("api: {media_url: 'https://host?x=1'}", "1:18: api.media_url must not have a query or fragment"),
    ("api: {base_url: 'https://host/api/v3?'}", "1:17: api.base_url must not have a query or fragment"),
    ("api: {base_url: 'https://host/api/v3#'}", "1:17: api.base_url must not have a query or fragment"),
    (REMOTE + "credentials: {username: bob}", "2:25: credentials.username must not stand in the file itself"),
    (
        REMOTE + "credentials: {password: {env: A, file: b}}",
        "2:25: credentials.password is either {env: NAME} or {file: PATH}",
    ),
    ("credentials: {password: {}}", "1:25: credentials.password is either {env: NAME} or {file: PATH}"),
)
def test_each_mistake_is_told_with_line_and_column(text: str, message: str) -> None:
    found = mistakes(text)
    assert any(complaint.startswith(f"c.yaml:{message}") for complaint in found), found


@pytest.mark.parametrize(
    "text",
    ["notify: [{url: 'tel://1', on: [surge]}]", "web: {listen: '127.0.0.1:1', users: {a: {password: b}}}"],
)
def test_only_the_services_sign_in_is_told_that_it_may_stand_in_the_file(text: str) -> None:
    assert mistake(text).hint == "write {env: NAME} or {file: PATH}"


def test_the_shipped_config_is_the_defaults() -> None:
    shipped, plain = load_config(SHIPPED), read("")
    for key in ("api", "credentials", "partners", "mode", "poll", "requests", "safety", "stop_within", "web"):
        assert getattr(shipped, key) == getattr(plain, key), key
    assert shipped.confirmed == frozenset()
    assert shipped.embedded


def test_what_is_left_out_has_the_documented_default() -> None:
    config = read("api:\npoll: null\n")
    assert config.poll.interval == timedelta(seconds=3)
    assert config.safety.settle == timedelta(minutes=2)
    assert (config.safety.surge.events, config.safety.gap.then) == (25, "ask")
    assert (config.rules, config.folder) == (Path("folder/rules"), Path("folder"))
    assert config.ledger == "sqlite:///worker.db"
    assert config.partners is None
    assert (config.credentials.username.key, config.credentials.username.env) == (
        "credentials.username",
        "CAMPAIGN_WORKER_USERNAME",
    )


@cases(
    "text, hint",
    ("partners: here", "write partners: discover, or partners: [partner-id-the-hall]"),
    ("ledger: worker.db", "write sqlite:///worker.db for a file"),
    ("api: {media_url: sandbox}", "write https://HOST/…; only api.base_url can be sandbox"),
    ("web: {listen: 9000}", "write listen: 127.0.0.1:9000"),
    ("web: {listen: ':9000'}", "write listen: 127.0.0.1:9000"),
    ("web: {listen: here}", "write listen: 127.0.0.1:8080"),
    ("notify: [needs_human]", "write {url: …, on: …}"),
    ("notify: [{url: {env: A}, on: [needs_humans]}]", "write needs_human"),
    ("notify: [{url: {env: A}, on: [zzz]}]", "such as needs_human, waiting or surge; docs/reference.md has all"),
)
def test_what_is_said_to_write_can_be_written_there(text: str, hint: str) -> None:
    assert mistake(text).hint.startswith(hint)


def test_a_partner_id_that_looks_like_a_number_stands_in_quotes() -> None:
    assert read("partners: [partner-id-a, '12', '007']").partners == ("partner-id-a", "12", "007")


@cases(
    "base_url, local, media",
    ("sandbox", True, None, "embedded"),
    ("http://127.0.0.1:8080/api/v3", True, "http://127.0.0.1:8080/api/media", "this machine"),
    ("http://localhost/api/v3/", True, "http://localhost/api/media", "by name"),
    ("http://[::1]:9/v3", True, "http://[::1]:9/media", "by another address"),
    ("https://host/api/v3", False, "https://host/api/media", "another machine"),
    ("https://host/x", False, "https://host/api/media", "another path"),
)
def test_what_follows_from_the_address(base_url: str, local: bool, media: str | None) -> None:
    config = read(f"api: {{base_url: '{base_url}'}}")
    assert (config.local, config.media_url, config.embedded) == (local, media, base_url == "sandbox")


def test_a_literal_is_allowed_for_the_sandbox_and_never_shown() -> None:
    config = read("credentials: {username: bob, password: hunter2}")
    assert resolve(config.credentials.password, {}).reveal() == "hunter2"
    assert "hunter2" not in repr(config) + str(resolve(config.credentials.password, {})) + repr(config.credentials)


PAGE = "web:\n  listen: 127.0.0.1:8080\n  "


@pytest.mark.parametrize(
    "text",
    [
        REMOTE + "credentials: {username: [hush], password: hush}",
        *(PAGE + one for one in ("users:\n    ann:\n      password: hush\n", "users:\n    ann: hush\n")),
        *(PAGE + one for one in ("tokens:\n    p:\n      token: hush\n", "tokens:\n    p: hush\n")),
        "hush\n",
        "credentials: {username: me, password: *hush }",
        "credentials: {username: me, password: !hush }",
        "credentials: {username: me, password: !hush!hush }",
        "credentials: {username: me, password: {x: &hush 1, y: &hush 1} }",
    ],
)
def test_no_mistake_shows_a_secret_that_stands_in_the_file(text: str) -> None:
    with pytest.raises(InputErrors) as stop:
        read(text)
    assert "hush" not in "\n".join(line for one in stop.value.problems for line in one.lines)


def test_a_secret_is_resolved_only_when_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(b"\xef\xbb\xbfs3cret\r\n")  # as Windows saves it
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bad").write_bytes(b"\xff")
    assert resolve(SecretPlace.model_construct(env="A"), {"A": "x\n"}).reveal() == "x", "as `echo` wrote it"
    assert resolve(SecretPlace.model_construct(file=str(tmp_path / "pw")), {}).reveal() == "s3cret"
    wrong: Mapping[str, SecretPlace] = {
        "a secret: the environment variable A is not set": SecretPlace.model_construct(env="A"),
        "a secret: the environment variable B is not UTF-8": SecretPlace.model_construct(env="B"),
        "is empty": SecretPlace.model_construct(file=str(tmp_path / "empty")),
        "cannot be read: No such file or directory": SecretPlace.model_construct(file=str(tmp_path / "none")),
        "cannot be read: it is not UTF-8": SecretPlace.model_construct(file=str(tmp_path / "bad")),
    }
    for message, secret in wrong.items():
        with pytest.raises(UsageError, match=message) as found:
            resolve(secret, {"A": "", "B": "s3cret\udcff"})
        assert found.value.hint, "every error says what to do"


def test_a_secret_file_counts_from_the_folder_of_the_config() -> None:
    assert read("credentials: {password: {file: pw}}").credentials.password.path == Path("folder/pw")


def test_assumptions_are_checked_and_told_at_their_key() -> None:
    text = "assumptions:\n  setup.state_field: status\n  b.c: {x: 1}\n"
    assert str(mistake(text)) == "folder/c.yaml:3:3: there is no assumption 'b.c'"
    assert read(text.partition("  b.c")[0]).assumptions == {"setup.state_field": "status"}


@cases(
    "text, message, hint",
    (
        "assumptions: {safety.settle: 2m}",
        "15: there is no assumption 'safety.settle'",
        "write safety: {settle: …} beside `assumptions`, not under it",
    ),
    (
        "assumptions: {safety: {settle: 2m}}",
        "15: there is no assumption 'safety'",
        "write safety: … beside `assumptions`, not under it",
    ),
    (
        "assumptions: {client_campaign_status: {semantics: toggle}}",
        "15: there is no assumption 'client_campaign_status'",
        "write the whole key in one, with its dots: client_campaign_status.semantics: …",
    ),
    ("settle: 2m", "1: unknown key 'settle' in the config", "write safety: {settle: …}"),
    ("web.listen: a:1", "1: unknown key 'web.listen' in the config", "write web: {listen: …}"),
    ("task.failed: [BAD]", "1: unknown key 'task.failed' in the config", "write assumptions: {task.failed: …}"),
    ("pol.interval: 3s", "1: unknown key 'pol.interval' in the config", "known here: api, assumptions"),
)
def test_a_key_at_another_place_is_told_where_it_belongs(text: str, message: str, hint: str) -> None:
    found = mistake(text)
    assert str(found) == f"folder/c.yaml:1:{message}"
    assert found.hint.startswith(hint)


def test_what_is_written_is_vouched_for() -> None:
    assert read("safety: {settle: 2m}\nassumptions: {boost.body: null}").confirmed == {"safety.settle", "boost.body"}
    assert read("safety: {max_attempts: 2}").confirmed == frozenset()


def test_evidence_that_cannot_come_in_time_is_a_warning() -> None:
    [warning] = read("safety: {evidence_within: 1m}").warnings
    assert str(warning) == "folder/c.yaml:1:27: warning: safety.evidence_within is shorter than safety.settle"


@cases(
    "interval, said",
    ("6m", "poll.interval is too long for rules with `at`", "long"),
    ("90m", "poll.interval is as long as what counts as a silence", "longer"),
)
def test_an_interval_with_which_rules_cannot_act_is_warned_of(interval: str, said: str) -> None:
    (warning,) = read(f"poll: {{interval: {interval}}}").warnings
    assert warning.message == said


def test_a_query_of_a_fact_may_hold_an_address() -> None:
    assert read("facts: {a: {get: '/x?of=https://host/y'}}").facts["a"].get == "/x?of=https://host/y"


def test_facts_become_names_for_rules() -> None:
    config = read('facts: {spend: {get: "/x/{eid}", value: a.b}}')
    assert config.facts["spend"].value == "a.b"
    assert config.registry.facts["spend"].per_event_request


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="the config cannot be read: No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"# ok\nmode: \xff")
    with pytest.raises(InputErrors, match=r"bad\.yaml:2:7: is not UTF-8: a byte cannot be read") as found:
        load_config(tmp_path / "bad.yaml")
    assert "save the file as UTF-8" in found.value.problems[0].hint
    assert found.value.problems[0].source == "", "a secret may stand there"
    (tmp_path / "big.yaml").write_bytes(b"#" * (loading.FILE_BYTES_MAX + 1))
    with pytest.raises(InputErrors, match="larger than"):
        load_config(tmp_path / "big.yaml")


def test_who_may_not_read_it_is_not_told_to_name_another_one() -> None:
    with folder_of_somebody() as folder:
        (folder / "config.yaml").write_text("mode: live\n", encoding="utf-8")
        (folder / "config.yaml").chmod(0o000)
        with without_rights(), pytest.raises(InputErrors, match="cannot be read: Permission denied") as found:
            load_config(folder / "config.yaml")
    assert "let this user read it" in found.value.problems[0].hint


KEYS = st.sampled_from(["api", "poll", "safety", "partners", "facts", "web", "notify", "credentials", "mode", "zz"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.timeout(60)
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_no_config_crashes_the_reader(values: dict[str, object]) -> None:
    with suppress(InputErrors):
        assert isinstance(read(yaml.safe_dump(values)), Config)


@cases(
    "web, words",
    ("{listen: 0.0.0.0:80}", "nobody would be asked for a password", "open to every machine"),
    ("{listen: 'worker.example.com:80'}", "nobody would be asked for a password", "a name is not this machine"),
    ("{listen: '127.0.0.1:99999'}", "has no port 99999", "no such port"),
    ("{listen: '0.0.0.0:80', users: {ann: {password: secret}}}", "password must not stand in the file", "a literal"),
    ("{listen: '0.0.0.0:80', tokens: {t: {token: secret}}}", "token must not stand in the file", "a literal"),
    ("{listen: '0.0.0.0:80', users: {ann: {env: A}}}", "says what somebody may do", "as it was written before"),
    ("{listen: '127.0.0.1:80', token: {env: A}}", "did you mean 'tokens'", "as it was written before"),
    ("{listen: ':80', users: {ann: {password: {env: A}, may: [send]}}}", "may", "nobody may send"),
    ("{listen: '0.0.0.0:80', users: {'a:b': {password: {env: A}}}}", "is no name", "a colon ends it in a header"),
    ("{listen: '127.0.0.1:80', hosts: ['https://x']}", "is no host name", "an address instead of a name"),
    ("{listen: '0.0.0.0:80', users: {ann: {may: [view]}}}", "users.ann has no password", "and no proxy"),
    ("{listen: '0.0.0.0:80', proxy: {header: Cookie, addresses: [10.0.0.5]}}", "no header for a name", "others set it"),
    ("{listen: '0.0.0.0:80', proxy: {header: X-User, addresses: [proxy]}}", "no address or network", "a name"),
    ("{listen: '0.0.0.0:80', proxy: {header: X-User, addresses: []}}", "addresses", "believed from nowhere"),
    ("{listen: '0.0.0.0:80', proxy: {header: X-User, addresses: [10.0.0.5]}}", "nobody would be asked", "no users"),
    ("{listen: '127.0.0.1:80', user: {}}", "did you mean 'users'", "a misspelt key"),
    (
        "{listen: '127.0.0.1:80', users: {ann: {password: {env: A}, may: [operate], up_to: 5}}}",
        "web.users.ann.up_to is how much somebody may approve, and this one may not",
        "it would limit nothing",
    ),
    ("{listen: '127.0.0.1:80', tokens: {t: {token: {env: A}, up_to: 5}}}", "web.tokens.t.up_to is how much", "too"),
)
def test_a_page_that_would_stand_open_is_refused(web: str, words: str) -> None:
    with pytest.raises(InputErrors, match=words):
        read(f"web: {web}")


@pytest.mark.parametrize("listen", ["127.0.0.1:8080", "localhost:8080", "'[::1]:8080'"])
def test_a_page_for_this_machine_needs_no_password(listen: str) -> None:
    web = read(f"web: {{listen: {listen}}}").web
    assert web is not None
    assert (host_and_port(web.listen)[1], web.users, web.tokens) == (8080, {}, {})


def test_a_page_for_others_says_where_its_secrets_are(tmp_path: Path) -> None:
    text = """web: {listen: '0.0.0.0:80', hosts: [W.Example], tokens: {prometheus: {token: {env: T}}}, users: {
      ann: {password: {env: A}}, ben: {password: {file: b}, may: [view, approve], up_to: 500}}}"""
    web = read(text).web
    assert web is not None
    assert (host_and_port(web.listen)[0], web.hosts) == ("0.0.0.0", ("w.example",))  # noqa: S104 - what is tested
    secrets = {name: one.secret for name, one in web.users.items()}
    assert {
        name: (secret.env, secret.key, set(web.users[name].may), web.users[name].up_to)
        for name, secret in secrets.items()
        if secret is not None
    } == {
        "ann": ("A", "web.users.ann.password", {"view"}, None),
        "ben": (None, "web.users.ben.password", {"view", "approve"}, 500.0),
    }
    assert web.tokens["prometheus"].may == ("view",), "a token reads"


def test_who_comes_by_a_proxy_needs_no_password() -> None:
    proxy = "{header: X-Remote-User, addresses: [10.0.0.5, 'fd00::/64']}"
    found = read(f"web: {{listen: '0.0.0.0:80', proxy: {proxy}, users: {{ann: {{may: [view]}}}}}}")
    assert found.web is not None
    keys = KeyRing(found.web)()
    assert (keys.named_in, [str(one) for one in keys.proxies]) == ("X-Remote-User", ["10.0.0.5/32", "fd00::/64"])
    assert keys.users["ann"] == Key(secret=NOBODY)


@pytest.mark.parametrize(("topic", "near"), [("need_human", "needs_human"), ("messages", "notify")])
def test_topics_of_messages_are_checked_with_the_nearest_name(topic: str, near: str) -> None:
    told = read("notify: [{url: {env: A}, on: [needs_human, surge, cycle_failed, notify]}]").notify
    assert [(one.url.env, sorted(one.on)) for one in told] == [
        ("A", ["cycle_failed", "needs_human", "notify", "surge"]),
    ]
    misspelt = mistake(f"notify: [{{url: {{env: A}}, on: [{topic}]}}]")
    assert f"there is no '{topic}'; did you mean '{near}'" in str(misspelt)


# settings from the environment


def test_any_key_is_set_from_the_environment_above_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "API__BASE_URL": "https://host/api/v3",
        "PARTNERS": "[p1, p2]",
        "POLL__INTERVAL": "7s",
        "SAFETY__SPEND": "{per_day: 500}",
        "WEB__LISTEN": "127.0.0.1:8081",
        "ASSUMPTIONS__SETUP__DRAFT": "[DRAFT, NEW]",
    }
    for name, text in given.items():
        monkeypatch.setenv(f"CAMPAIGN_WORKER__{name}", text)
    file = tmp_path / "config.yaml"
    file.write_text("poll: {interval: 5s, page_size: 50}\nmode: shadow\nweb: null\n", "utf-8")

    config = load_config(file)

    assert config.api.base_url == "https://host/api/v3"
    assert config.partners == ("p1", "p2")
    assert (config.poll.interval, config.poll.page_size) == (timedelta(seconds=7), 50)
    assert (config.mode, config.safety.spend.per_day) == ("shadow", 500)
    assert config.web is not None
    assert config.web.listen == "127.0.0.1:8081"
    assert config.assumptions == {"setup.draft": ["DRAFT", "NEW"]}


@pytest.mark.parametrize("text", ["", " "])
@pytest.mark.parametrize("name", ["MODE", "SAFETY__SPEND__PER_DAY", "SAFETY", "PARTNERS"])
def test_an_empty_variable_undoes_nothing_that_the_file_says(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CAMPAIGN_WORKER__{name}", text)
    file = tmp_path / "config.yaml"
    file.write_text("mode: shadow\nsafety: {spend: {per_day: 100}}\npartners: [p1]\n", "utf-8")
    config = load_config(file)
    assert (config.mode, config.safety.spend.per_day, config.partners) == ("shadow", 100, ("p1",))


@cases(
    "name, text, message",
    ("POLL__INTERVAL", "1s", "POLL__INTERVAL:1:1: poll.interval: '1s' is too short; the service asks"),
    ("POLL__INTERVALL", "5s", "POLL__INTERVALL:1:1: unknown key 'intervall' in poll; did you mean 'interval'?"),
    ("SAFETY", "{gap: {then: now}}", "SAFETY:1:14: safety.gap.then is one of ask, act, reobserve, not 'now'"),
    ("NOTIFY", "[{", "NOTIFY:1:3: not valid YAML: the file ends inside of a bracket"),
    ("NOTIFY__0__URL", "x", "NOTIFY__0__URL:1:1: sets '0' of what is no mapping in the file"),
    ("", "x", ":1:1: unknown key '' in the config"),
    ("MODE", "live\udcff", "MODE:1:5: not valid YAML: the character U+DCFF is not allowed"),
)
def test_a_mistake_in_a_variable_is_told_at_its_name(
    name: str, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CAMPAIGN_WORKER__{name}", text)

    assert mistakes("notify: []")[0].startswith(f"CAMPAIGN_WORKER__{message}")


@cases(
    "name, meant",
    *((name, "MODE") for name in ("campaign_worker__mode", "Campaign_Worker__MODE", "campaign_worker_mode")),
    ("CAMPAIGN_WORKER_MODE", "MODE"),
    ("CAMPAIGN_WORKER_PARTNERS__0", "PARTNERS__0"),
    ("CAMPAIGN_WORKER_API_BASE_URL", "API__BASE_URL"),
    ("CAMPAIGN_WORKER_SAFETY_SPEND_PER_DAY", "SAFETY__SPEND__PER_DAY"),
    ("CAMPAIGN_WORKER_SAFETY_SPEND__PER_DAY", "SAFETY__SPEND__PER_DAY"),
    ("CAMPAIGN_WORKER_ASSUMPTIONS_SETUP_STATE_FIELD", "ASSUMPTIONS__SETUP__STATE_FIELD"),
    *((f"CAMPAIGN_WORKER_{name}", "") for name in ("USERNAME", "CREDENTIALS_PASSWORD", "NOTIFY_URL")),
)
def test_a_variable_in_small_letters_or_with_one_underscore_where_two_are_meant_is_no_silent_live(
    monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(name, "shadow")
    if meant:
        found = mistake("mode: live")
        assert (str(found), found.hint) == (f"{name}: sets nothing", f"CAMPAIGN_WORKER__{meant} does")
    else:
        assert read("mode: live").mode == "live"


@pytest.mark.parametrize(
    "text", ["mode:shadow", "- mode: shadow", "safety: [spend: {per_day: 100}]", "safety: {spend: 100}"]
)
def test_a_variable_does_not_take_the_place_of_what_is_mistaken_in_the_file(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one set, ``mode:shadow`` was as good as nothing written, which is live, and a limit was none."""
    assert mistakes(text)[0].startswith("c.yaml:1:")
    monkeypatch.setenv("CAMPAIGN_WORKER__SAFETY__SPEND__PER_WEEK", "1000")
    [said] = mistakes(text)
    assert said.startswith("CAMPAIGN_WORKER__SAFETY__SPEND__PER_WEEK:1:1: sets '")


def test_a_variable_names_a_secret_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAMPAIGN_WORKER__CREDENTIALS__PASSWORD__ENV", "PW")
    assert read("credentials: {password: secret}").credentials.password.env == "PW"


def test_a_variable_sets_a_key_of_a_name_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAMPAIGN_WORKER__FACTS__ADSPEND__EVERY", "10m")
    assert [*read("facts: {adSpend: {get: /partners/}}").facts] == ["adSpend"]


def test_no_mistake_shows_what_a_variable_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAMPAIGN_WORKER__CREDENTIALS__PASSWORD", "hush-hush")
    monkeypatch.setenv("CAMPAIGN_WORKER__PASSWORD", "hush-hush")

    with pytest.raises(InputErrors) as stop:
        read(REMOTE)

    said = "\n".join(line for one in stop.value.problems for line in one.lines)
    assert "CAMPAIGN_WORKER__CREDENTIALS__PASSWORD:1:1: credentials.password must not stand in" in said
    assert "CAMPAIGN_WORKER__PASSWORD:1:1: unknown key 'password' in the config" in said
    assert "hush" not in said
