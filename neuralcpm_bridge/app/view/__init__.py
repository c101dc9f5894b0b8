"""A tissue that lives in a page of the user's own browser: `tissue` moves it, `server` shows it, `page/` draws it."""
