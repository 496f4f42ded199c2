"""`python -m mrc_workbench`, or `mrc` in an installation: the command line."""

import sys

from mrc_workbench.data.terminal import end_on_ctrl_c, raise_on_ctrl_c

end_on_ctrl_c()  # before libraries are imported

from mrc_workbench.workbench.cli import main

raise_on_ctrl_c()

if __name__ == "__main__":
    sys.exit(main())
