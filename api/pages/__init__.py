"""The web pages of an instance: files that a browser runs as they are, and the routes that serve them.

They have no door of their own: whatever they show or do goes through /v1, with the rights of the caller.
Read `static/app.js` first, then `static/views/` (what is shown, as functions of answers) and `static/pages/`
(how it is drawn).
"""
