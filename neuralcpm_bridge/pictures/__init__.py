"""Pictures of states and curves, drawn with Pillow."""

from __future__ import annotations

from .charts import Line, line_chart
from .drawing import png_bytes, save_png, type_colour
from .planes import Paint
from .states import contact_sheet, frame, save_animation, save_gif, state_image, strip, tile

__all__ = [
    "Line",
    "Paint",
    "contact_sheet",
    "frame",
    "line_chart",
    "png_bytes",
    "save_animation",
    "save_gif",
    "save_png",
    "state_image",
    "strip",
    "tile",
    "type_colour",
]
