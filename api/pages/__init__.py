"""The web pages of an instance: static files without a build step, and the routes that serve them.

They have no access of their own: everything goes through /v1, with the rights of the caller. Read
`static/app.js` first, then `static/views/` (content as functions of responses) and `static/pages/`
(rendering).
"""
