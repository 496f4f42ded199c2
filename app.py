"""The MRC retrieval workbench: `streamlit run app.py` serves `workbench/frame.py`."""

import streamlit as st
from starlette.middleware import Middleware

from mrc_workbench.data.terminal import let_idle_threads_sleep, quiet
from mrc_workbench.workbench.views import access
from mrc_workbench.workbench.views.access import AccessMiddleware, app_lifespan
from mrc_workbench.workbench.views.navigation import FIRST, PAGES, document_routes

quiet()
let_idle_threads_sleep()
access.configure()  # before any module reads the workspace or the environment
documents = document_routes([FIRST, *(page.name for page in PAGES)])
app = st.App("workbench/frame.py", lifespan=app_lifespan, middleware=[Middleware(AccessMiddleware)], routes=documents)
