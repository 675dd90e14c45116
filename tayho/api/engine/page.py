"""The OpenAPI document as a page for people. It loads nothing: no script, no style, no font from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape

from tayho.api.engine.schemas import Schema

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#f4f4f4;padding:1rem;overflow:auto}"
    "td,th{text-align:left;vertical-align:top;padding:.2rem 1rem .2rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}pre{background:#222}}"
)


def page_of(document: Schema) -> str:
    """The page."""
    info = document["info"]
    body = "".join(
        [
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
            *_operations(document),
            *_schemas(document),
        ]
    )
    head = f'<meta charset="utf-8"><title>{escape(info["title"])}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en">{head}{body}</html>'


def _operations(document: Schema) -> Iterator[str]:
    for path, item in document["paths"].items():
        for method in ("post", "get"):
            if method not in item:
                continue
            operation = item[method]
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>"
            for media in operation.get("requestBody", {}).get("content", {}).values():
                for example in media["examples"].values():
                    yield f"<pre>{escape(json.dumps(example['value'], indent=2))}</pre>"
            yield "<table>"
            for status, answer in operation["responses"].items():
                yield f"<tr><th>{status}</th><td>{escape(answer['description'])}</td></tr>"
            yield "</table>"


def _schemas(document: Schema) -> Iterator[str]:
    for name, schema in document["components"]["schemas"].items():
        yield f"<h2>{escape(name)}</h2><table>"
        for field, described in schema["properties"].items():
            yield f"<tr><th><code>{escape(field)}</code></th><td>{escape(described.get('description', ''))}</td></tr>"
        yield "</table>"
