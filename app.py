"""The MRC retrieval workbench: `streamlit run app.py` serves what `workbench.py` draws."""

import streamlit as st
from starlette.middleware import Middleware

from data.terminal import quiet
from data.threads import let_idle_threads_sleep
from views import access
from views.access import Gate, serving
from views.navigation import FIRST, PAGES
from views.ui.document import document_routes

quiet()
let_idle_threads_sleep()
access.begin()  # before anything asks for a workspace, or for what the environment says
documents = document_routes([FIRST, *(page.name for page in PAGES)])
app = st.App("workbench.py", lifespan=serving, middleware=[Middleware(Gate)], routes=documents)
