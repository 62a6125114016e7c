"""Signing in: one token for all, one request at a time, and nothing secret in any message."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.builders import cases
from tests.unit.api.world import assumed, id_token, jwt
from tests.unit.reading.virtual import VirtualClock, no_chance, stories_in
from worker.api import requests as tokens
from worker.api.assumptions import Assumptions
from worker.api.requests import Account, AuthAnswer, Authenticator
from worker.model.errors import NotSafe, Unreachable, WorkerError
from worker.model.exchange import SecretValue
from worker.model.facts import Json

LIFETIME_S = 3600
REFRESHING = assumed(auth__refresh={"path": "/auth/refresh", "body": {"RefreshToken": "{refresh_token}"}})


def signed_in(number: int = 1, **changes: Json) -> AuthAnswer:
    body: dict[str, Json] = {
        "AccessToken": f"access-{number}",
        "IdToken": id_token("partner-id-hall", "staff"),
        "RefreshToken": "refresh-1",
        "ExpiresIn": LIFETIME_S,
        "TokenType": "Bearer",
        **changes,
    }
    return AuthAnswer(status=200, content=json.dumps(body).encode())


class Door:
    """A sign-in on a virtual clock. ``answer`` gives the answer to the n-th request; each takes a second."""

    def __init__(self, answer: Callable[[int], AuthAnswer] = signed_in, assumptions: Assumptions | None = None) -> None:
        self.clock = VirtualClock()
        self.answer = answer
        self.posts: list[tuple[float, str, Json]] = []
        self.sign_in = Authenticator(
            post=self.post,
            account=Account(username=SecretValue("me"), password=SecretValue("s3cret")),
            clock=self.clock,
            chance=no_chance,
            assumptions=assumptions or Assumptions(),
        )

    async def post(self, path: str, body: Json) -> AuthAnswer:
        self.posts.append((self.clock.monotonic(), path, body))
        await self.clock.sleep(1.0)
        return self.answer(len(self.posts))

    async def token(self) -> str:
        return (await self.sign_in.token()).reveal()

    def tokens(self, *waits: float) -> list[str]:
        """The token that somebody gets after each of these waits."""

        async def story() -> list[str]:
            found = []
            for wait_s in waits:
                await self.clock.sleep(wait_s)
                found.append(await self.token())
            return found

        return self.clock.run(story())

    async def error(self) -> WorkerError:
        with pytest.raises(WorkerError) as caught:
            await self.sign_in.token()
        return caught.value

    def times(self) -> list[float]:
        return [at for at, _, _ in self.posts]


at_door = stories_in(Door)


@at_door()
async def test_many_who_need_a_token_share_one_sign_in(door: Door) -> None:
    assert set(await asyncio.gather(*(door.token() for _ in range(20)))) == {"access-1"}
    assert door.posts == [(0.0, "/auth", {"username": "me", "password": "s3cret"})]


@at_door()
async def test_who_gives_up_does_not_take_the_sign_in_from_the_others(door: Door) -> None:
    first, second = asyncio.ensure_future(door.token()), asyncio.ensure_future(door.token())
    await door.clock.sleep(0.5)
    first.cancel()
    assert await second == "access-1"


def test_the_token_is_renewed_at_four_fifths_of_its_life_counted_from_the_request() -> None:
    door = Door()

    assert door.tokens(0.0, 0.8 * LIFETIME_S - 1.0 - 0.5, 1.0, 1.5) == ["access-1"] * 3 + ["access-2"]
    assert door.times() == [0.0, 0.8 * LIFETIME_S + 0.5]


def test_nobody_waits_for_a_renewal_but_in_the_last_minute_of_the_old_token() -> None:
    door = Door()

    assert door.tokens(0.0, LIFETIME_S - 63.0, 0.0) == ["access-1"] * 3
    assert Door().tokens(0.0, LIFETIME_S - 59.0) == ["access-1", "access-2"]


def test_a_renewal_that_fails_leaves_the_old_token_in_use_and_is_tried_again() -> None:
    door = Door(lambda number: AuthAnswer(status=503) if number == 2 else signed_in(number))

    assert door.tokens(0.0, 0.8 * LIFETIME_S, 0.0, 7.0, 1.5) == ["access-1"] * 4 + ["access-3"]
    assert len(door.posts) == 3


@at_door(answer=lambda number: signed_in(1) if number == 1 else AuthAnswer(status=503))
async def test_an_expired_token_is_not_given_out(door: Door) -> None:
    await door.token()
    await door.clock.sleep(LIFETIME_S)
    assert isinstance(await door.error(), Unreachable)


@at_door()
async def test_a_token_that_the_service_refused_is_replaced_once_and_not_within_five_seconds(door: Door) -> None:
    old = await door.sign_in.token()
    door.sign_in.refused(old)
    new = await door.sign_in.token()
    door.sign_in.refused(old)
    assert door.sign_in.renewable(old), "there is another one to try with"
    assert not door.sign_in.renewable(new), "it is only seconds old"
    assert await door.token() == "access-2", "what was replaced already is refused without harm"
    assert door.times() == [0.0, 5.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_refused_credentials_are_not_tried_again_for_five_minutes(status: int) -> None:
    door = Door(lambda _: AuthAnswer(status=status, content=b'{"password": "s3cret"}'))

    async def story() -> list[WorkerError]:
        seen = []
        for wait_s in (0, 0, 299, 1):
            await door.clock.sleep(wait_s)
            seen.append(await door.error())
        return seen

    seen = door.clock.run(story())

    assert all(isinstance(error, NotSafe) for error in seen)
    assert "s3cret" not in f"{seen[0]} {seen[0].hint} {seen[0]!r}"
    assert str(status) in str(seen[0])
    assert door.times() == [0.0, 301.0]


@at_door(answer=lambda _: AuthAnswer(status=None, why="ConnectError: refused"))
async def test_a_service_that_does_not_answer_is_tried_again_with_longer_and_longer_waits(door: Door) -> None:
    while door.clock.monotonic() < 150:
        await door.error()
        await door.clock.sleep(1.0)
    error = await door.error()

    assert isinstance(error, Unreachable)
    assert "refused" in str(error)
    gaps = [round(b - a) for a, b in zip(door.times(), door.times()[1:], strict=False)]
    assert gaps == [6, 11, 21, 41, 61]


@at_door(answer=lambda number: AuthAnswer(status=429, retry_after=timedelta(seconds=90 if number == 1 else 10**7)))
async def test_a_sign_in_that_is_too_much_waits_as_long_as_it_is_told(door: Door) -> None:
    for at in (0.0, 50.0, 90.9, 91.0, 500.0, 991.9, 992.0):
        await door.clock.sleep(at - door.clock.monotonic())
        await door.error()

    assert door.times() == [0.0, 91.0, 992.0], "ninety seconds, and then never more than a quarter of an hour"


@pytest.mark.parametrize(
    "answer",
    [
        AuthAnswer(status=200, content=b"<html>s3cret"),
        AuthAnswer(status=200, content=b'["s3cret"]'),
        signed_in(AccessToken=None),
        signed_in(AccessToken="s3cret\r\nX: y"),
        signed_in(ExpiresIn=0),
        signed_in(ExpiresIn="3600"),
        signed_in(ExpiresIn=True),
        AuthAnswer(status=302),
    ],
)
def test_a_sign_in_that_is_not_understood_is_a_failure_that_quotes_nothing(answer: AuthAnswer) -> None:
    door = Door(lambda _: answer)

    error = door.clock.run(door.error())

    assert isinstance(error, Unreachable)
    assert "s3cret" not in str(error)


def test_a_sign_in_without_a_token_asks_whether_more_than_a_password_is_wanted() -> None:
    door = Door(lambda _: AuthAnswer(status=200, content=b'{"ChallengeName": "SOFTWARE_TOKEN"}'))

    assert "is MFA on, or a new password due?" in str(door.clock.run(door.error()))


def test_a_refresh_is_used_where_the_operator_vouches_for_one() -> None:
    answers = {1: signed_in(1), 2: signed_in(2, IdToken=None, RefreshToken=None), 3: signed_in(3)}
    door = Door(lambda number: answers[number], REFRESHING)

    door.tokens(0.0, 0.8 * LIFETIME_S, 0.8 * LIFETIME_S)

    partners = door.clock.run(door.sign_in.partners())
    assert partners == ("partner-id-hall",), "who we are is known from the sign-in"
    assert [(path, body) for _, path, body in door.posts[1:]] == [
        ("/auth/refresh", {"RefreshToken": "refresh-1"}),
        ("/auth/refresh", {"RefreshToken": "refresh-1"}),
    ], "a refresh token does not rotate"


def test_a_refresh_that_fails_is_followed_by_a_sign_in() -> None:
    door = Door(lambda number: AuthAnswer(status=401) if number == 2 else signed_in(number), REFRESHING)

    assert door.tokens(0.0, 0.8 * LIFETIME_S, 7.0) == ["access-1", "access-1", "access-3"]
    assert [path for _, path, _ in door.posts] == ["/auth", "/auth/refresh", "/auth"]
    assert door.times()[2] - door.times()[1] == 5.0


@pytest.mark.parametrize("status", [429, 503])
def test_a_refresh_that_is_told_to_wait_is_followed_by_nothing_until_then(status: int) -> None:
    waits = AuthAnswer(status=status, retry_after=timedelta(seconds=300))
    door = Door(lambda number: waits if number == 2 else signed_in(number), REFRESHING)

    assert door.tokens(0.0, 0.8 * LIFETIME_S, 299.0, 3.0, 1.5) == ["access-1"] * 4 + ["access-3"]
    assert [path for _, path, _ in door.posts] == ["/auth", "/auth/refresh", "/auth/refresh"]
    assert door.times()[2] - door.times()[1] >= 300.0


def test_a_lifetime_that_is_left_out_is_the_documented_one() -> None:
    body = {"AccessToken": "a"}

    assert tokens.tokens_from(json.dumps(body).encode(), 0.0).lifetime_s == 3600


@cases(
    "identity, why",
    *((one, "cannot be decoded") for one in ("", "one", "a.b", "a.%%%.c", "a." + "é" * 5 + ".c", "..")),
    (jwt({}), "idp:groups"),
    (jwt({"idp:groups": "partner-id-hall"}), "idp:groups"),
    (jwt({"idp:groups": ["partner-id-hall", 7]}), "idp:groups"),
    (jwt({"idp:groups": None}), "idp:groups"),
    (jwt(["partner-id-hall"]), "idp:groups"),
)
def test_an_identity_that_names_no_groups_is_a_clear_error(identity: str, why: str) -> None:
    with pytest.raises(NotSafe, match=why) as caught:
        tokens.groups_in(SecretValue(identity))
    assert "partners:" in caught.value.hint


@pytest.mark.parametrize("padding", [True, False])
def test_groups_are_read_with_and_without_padding_in_any_script(padding: bool) -> None:
    for name in ("partner-id-a", "partner-id-ab", "ÿþ>?", "東京"):
        assert tokens.groups_in(SecretValue(jwt({"idp:groups": [name]}, padding=padding))) == (name,)


@cases(
    "group, is_partner",
    ("partner-id-hall", True, "the documented form"),
    ("partner-id-the-hall_2.b", True, "a slug with parts"),
    ("op-17", True, "the operator's prefix and digits"),
    ("partner-id-", False, "no slug"),
    ("partner-id-a b", False, "a space would break the header"),
    ("partner-id-a\r\nX: y", False, "so would this, and worse"),
    ("partner-id-ä", False, "a header is ASCII"),
    ("my-partner-id-hall", False, "it must be the whole of it"),
    ("op-admin", False, "staff may act as any partner, but names none"),
    ("op-", False, "no digits"),
    ("op-1x", False, "not only digits"),
    ("op-١٢", False, "not these digits"),
    ("opx17", False, "the prefix is a text, not a pattern"),
    ("newsletter", False, "some other group"),
)
def test_partners_are_the_groups_of_the_documented_forms(group: str, is_partner: bool) -> None:
    assert (tokens.partners_in([group], "op-") == (group,)) is is_partner


def test_without_a_prefix_only_slugs_are_partners_each_once() -> None:
    assert tokens.partners_in(["partner-id-b", "17", "partner-id-a", "partner-id-b"], None) == (
        "partner-id-b",
        "partner-id-a",
    )
