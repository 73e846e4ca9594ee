package gitlab

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// GitRemote returns where git finds a project and the header that lets it in. Git addresses by path, so where the project is now is looked up; if
// that cannot be told, its row has to do.
func (h *Host) GitRemote(ctx context.Context, repo bot.Repository) (bot.GitRemote, error) {
	path := repo.Path
	if found := h.lookUp(ctx, repo); found.err == nil && found.path != "" {
		path = found.path
	}
	if err := checkPath(path); err != nil {
		return bot.GitRemote{}, fmt.Errorf("preparing git access to %s: %w", repo.Path, err)
	}
	remote := bot.GitRemote{
		Key: fmt.Sprintf("%s/%d", h.config.Name, repo.ExternalID),
		URL: fmt.Sprintf("%s/%s.git", h.git, path),
	}
	if strings.HasPrefix(h.git, "https://") || strings.HasPrefix(h.git, "http://") { // else a folder: nobody to authenticate to
		// GitLab takes any user name with a token.
		basic := base64.StdEncoding.EncodeToString([]byte("oauth2:" + h.config.Token.Reveal()))
		remote.Header = bot.Secret("Authorization: Basic " + basic)
	}
	return remote, nil
}

// checkPath accepts what GitLab takes for a path: two or more segments of letters of any script, digits and -_.
func checkPath(path string) error {
	segments := strings.Split(path, "/")
	ok := len(segments) >= 2
	for _, s := range segments {
		ok = ok && s != "" && s != "." && s != ".." && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool {
			return r <= ' ' || r == 0x7f || strings.ContainsRune(`\?#%:*"<>|@`, r)
		})
	}
	if !ok {
		return fmt.Errorf("%q is not the path of a GitLab project: it is written group/name", path)
	}
	return nil
}
