from tayho.coordination.module import Coordination as Coordination
from tayho.coordination.types import *  # noqa
