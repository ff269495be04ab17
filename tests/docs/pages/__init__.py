"""The figures of the documentation, page by page: what stands there, and where it comes from."""

from tests.docs.pages.certificates import CERTIFIED
from tests.docs.pages.datafree import WITHOUT_DATA
from tests.docs.pages.evasion import THIEVES
from tests.docs.pages.exact import EXACTLY
from tests.docs.pages.explanations import EXPLAINED
from tests.docs.pages.machines import MACHINES

PAGES = [*CERTIFIED, *WITHOUT_DATA, *THIEVES, *EXPLAINED, *EXACTLY, *MACHINES]
