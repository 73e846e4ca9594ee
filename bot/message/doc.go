// Package message holds every text batchbot writes for people: status comments, notices, replies, batch merge requests,
// merge commits and commit statuses. It is pure: rows in, text out.
//
// Titles, branch names, file names and the words of a host are untrusted. They go through one of three doors and nothing else:
// inline (Markdown), code (a code span) and Plain (commit messages, titles, statuses). All three flatten the text to one line,
// drop control and invisible characters, cap its length, and break mentions, references, closing keywords and bare URLs with
// a zero-width space, so that what the bot repeats notifies nobody, closes no issue and links nowhere.
//
// A text never begins a line with a command, so that the bot cannot order itself about, and never shouts: states are
// written as words, not as the constants of the rows.
package message
