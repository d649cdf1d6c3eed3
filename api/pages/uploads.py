"""Files that were chosen in a form."""

from __future__ import annotations

from werkzeug.datastructures import FileStorage

from adviser.projects.documents import text_of
from api.pages.api_client import ApiProblem
from common.errors import InvalidFile


def uploaded_text(upload: FileStorage) -> str:
    """The text of a file, in UTF-8 or in the encoding of its byte order mark.

    :raises ApiProblem: 422 if it is not such text
    """
    try:
        return text_of(upload.filename or "file", upload.read())
    except InvalidFile as error:
        raise ApiProblem(422, {"detail": str(error), "hint": error.hint}, {}) from error
