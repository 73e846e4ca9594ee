package gitmerge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/batchbot/batchbot/bot"
)

// remote is a checked bot.GitRemote.
type remote struct {
	url    string
	secret bot.Secret
	config []setting // what git must be told to reach it; carries the secret
}

func newRemote(from bot.GitRemote) (remote, error) {
	if from.Key == "" {
		return remote{}, errors.New("a git remote without a key: the key names its mirror")
	}
	if hasControl(from.URL) {
		return remote{}, fmt.Errorf("the URL %q of %s contains control characters", from.URL, from.Key)
	}
	to := remote{url: from.URL, secret: from.Header}
	if filepath.IsAbs(from.URL) {
		return to, nil
	}
	parsed, err := url.Parse(from.URL)
	if err != nil {
		return remote{}, fmt.Errorf("the git URL of %s cannot be read: give https://host/owner/name.git", from.Key)
	}
	if parsed.User != nil {
		return remote{}, fmt.Errorf("the git URL of %s holds credentials: pass them as a header, a URL is visible to everybody on the machine", from.Key)
	}
	switch parsed.Scheme {
	case "file":
		return to, nil
	case "http", "https":
	default:
		return remote{}, fmt.Errorf("the git URL %q of %s is neither http, https nor a local path", from.URL, from.Key)
	}
	if header := from.Header.Reveal(); header != "" {
		if hasControl(header) || !strings.Contains(header, ":") {
			return remote{}, fmt.Errorf("the header for %s is not one header line (\"Name: value\")", from.Key)
		}
		to.config = []setting{{"http." + from.URL + ".extraHeader", header}}
	}
	return to, nil
}

// folderName is a readable name for key that no other key shares.
func folderName(key string) string {
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, key)
	return readable[:min(len(readable), 80)] + "-" + digest(key)[:12]
}

// digest is a short hexadecimal hash that fits a file name.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// checkObjectID refuses everything but a full SHA-1 object id. what says whose it is.
func checkObjectID(what, id string) error {
	for i := range len(id) {
		if c := id[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return fmt.Errorf("%s is %q: not an object id of 40 lower-case hexadecimal digits", what, id)
		}
	}
	switch len(id) {
	case 40:
		return nil
	case 64:
		return fmt.Errorf("%s is %q: repositories with SHA-256 object ids are not supported", what, id)
	}
	return fmt.Errorf("%s is %q: not an object id of 40 lower-case hexadecimal digits", what, id)
}

// checkBranch refuses branch names that git would not allow or could take for something else.
func checkBranch(what, name string) error {
	if strings.HasPrefix(name, "-") {
		return fmt.Errorf("%s %q begins with a dash", what, name)
	}
	return checkRef(what, "refs/heads/"+name)
}

// checkRef applies the rules of git check-ref-format to a full reference name.
func checkRef(what, name string) error {
	problem := ""
	switch {
	case !strings.HasPrefix(name, "refs/"):
		problem = "does not begin with refs/"
	case len(name) > 1000:
		problem = "is longer than 1000 bytes"
	case hasControl(name):
		problem = "contains control characters"
	case strings.ContainsAny(name, " ~^:?*[\\"):
		problem = "contains a space or one of ~ ^ : ? * [ \\"
	case strings.Contains(name, ".."), strings.Contains(name, "@{"):
		problem = "contains .. or @{"
	case strings.HasSuffix(name, "."):
		problem = "ends with a dot"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			problem = "has an empty part"
		case strings.HasPrefix(part, "."), strings.HasSuffix(part, ".lock"):
			problem = "has a part that begins with a dot or ends with .lock"
		}
	}
	if problem != "" {
		return fmt.Errorf("%s %q %s", what, name, problem)
	}
	return nil
}

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }
