"""pyarrow, untyped: its stubs know less than the library."""

from typing import Any

import pyarrow
import pyarrow.compute

pa: Any = pyarrow
pc: Any = pyarrow.compute
