"""Rules: text and facts in, verdicts out.

Files are read once, checked against one registry of names, and compiled; from then on everything here is a function of
facts and time that are handed in. It never reads the service, the ledger or a clock.
"""

import sys
from types import ModuleType

# CEL's package loads its own command line with a terminal toolkit: a tenth of a second that no use of it here needs.
sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
