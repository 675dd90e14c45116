"""A kernel with effects."""

import nursery.drain  # breaks pure-kernel
import rpc.errors  # breaks pure-kernel
import storage.errors  # breaks pure-kernel
import tayho.kinds  # breaks inside-tayho
import trio  # breaks pure-kernel
