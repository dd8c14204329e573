// Package render writes tables, glyphs, times and JSON for people and for
// programs. It knows nothing of what it writes.
//
// Two rules hold throughout. Text that comes from outside (the output of a
// container, the error of an engine) may hold anything, so it is escaped before
// a terminal sees it: tables and JSON do that themselves, everything else goes
// through Escape. And colour never carries meaning alone: each status has its
// own glyph, and a table looks the same without its colours, since cells are
// padded first and painted after.
//
// Nothing here asks the terminal or the environment; the caller passes what it
// found out (Color, UTF8). Functions are pure and safe for concurrent use; a
// Table and a JSONWriter belong to one goroutine.
package render
