"""The web pages of an instance: static files without a build step, and the routes that serve them.

The pages get all data from /v1, with the rights of the user. Start with `static/app.js`, then `static/views/`
(content as functions of responses) and `static/pages/` (rendering).
"""
