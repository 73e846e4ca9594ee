package gitmerge

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/batchbot/batchbot/bot"
)

// identity is the author and committer of every merge commit, on every instance.
const identity = "batchbot <batchbot@noreply.invalid>"

// writeCommit stores a commit as a loose object and returns its id. The same content has the same id. A folder of objects has one
// writer.
func writeCommit(objects, tree string, parents []string, when time.Time, message string) (string, error) {
	var body bytes.Buffer
	fmt.Fprintf(&body, "tree %s\n", tree)
	for _, parent := range parents {
		fmt.Fprintf(&body, "parent %s\n", parent)
	}
	fmt.Fprintf(&body, "author %s %d +0000\ncommitter %s %d +0000\n\n%s", identity, when.Unix(), identity, when.Unix(), message)
	header := fmt.Sprintf("commit %d\x00", body.Len())

	hash := sha1.New()
	hash.Write([]byte(header))
	hash.Write(body.Bytes())
	id := hex.EncodeToString(hash.Sum(nil))

	var packed bytes.Buffer
	writer, _ := zlib.NewWriterLevel(&packed, zlib.BestSpeed)
	_, _ = writer.Write([]byte(header)) // into memory
	_, _ = writer.Write(body.Bytes())
	_ = writer.Close()

	folder := filepath.Join(objects, id[:2])
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("writing commit %s: %w", id, err)
	}
	file, err := os.OpenFile(filepath.Join(folder, id[2:]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if errors.Is(err, fs.ErrExist) {
		return id, nil
	}
	if err == nil {
		_, err = file.Write(packed.Bytes())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return "", fmt.Errorf("writing commit %s: %w", id, err)
	}
	return id, nil
}

// mergeMessage is the message of the merge commit of one member: a subject that the untrusted title cannot break out of, and the
// trailer that makes the commit this batch's own.
func mergeMessage(spec bot.BuildSpec, member bot.BuildMember) string {
	sign := "#"
	if strings.HasPrefix(member.HeadRef, "refs/merge-requests/") {
		sign = "!" // on GitLab #N is an issue
	}
	subject := fmt.Sprintf("Merge %s%d", sign, member.Number)
	if title := subjectTitle(member.Title); title != "" {
		subject += ": " + title
	}
	return fmt.Sprintf("%s\n\nBatch: %d-%s\n", subject, spec.BatchID, spec.Token)
}

const titleLimit = 200 // runes

// subjectTitle makes one short line of visible text out of a title. What turns the reading direction goes too: it could show a
// subject other than the one that is there.
func subjectTitle(title string) string {
	title = strings.ToValidUTF8(title, "\uFFFD")
	title = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), r == '\u2028', r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\uFEFF':
			return -1
		}
		return r
	}, title)
	runes := []rune(strings.Join(strings.Fields(title), " "))
	if len(runes) > titleLimit {
		return strings.TrimSpace(string(runes[:titleLimit-1])) + "…"
	}
	return string(runes)
}
