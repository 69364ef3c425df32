"""The HTTP front: a folder per wire protocol, guards around them, no model logic.

app = create_app(ApiState(text=text_model, engine=engine, settings=ApiSettings()))
"""

from stoker.api.application import create_app
from stoker.api.state import ApiSettings, ApiState, MachineFigures, ModelFigures

__all__ = ["ApiSettings", "ApiState", "MachineFigures", "ModelFigures", "create_app"]
