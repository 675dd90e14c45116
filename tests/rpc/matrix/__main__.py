"""`python -m tests.rpc.matrix`: the fault matrix, ours and the peers', as a table; with --json for a program."""

from tests.rpc.matrix.command import matrix

if __name__ == "__main__":
    matrix(prog_name="python -m tests.rpc.matrix")
