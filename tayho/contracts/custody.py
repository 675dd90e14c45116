from tayho.custody.module import Custody as Custody
from tayho.custody.types import *  # noqa
