// Package command holds the grammar of the slash commands. It is pure: the text of a comment in, commands out.
//
// A command stands on a line of its own and its first word is /batch. Only what a reader sees as a line of ordinary text counts:
// fenced and indented code, preformatted blocks, quotes and HTML comments are skipped, the latter also when they run over lines.
// Where Markdown is ambiguous the line is skipped: a command that was not seen is repeated by its author, one that was not meant
// may land a change.
package command
