package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// update fetches the package of s unless it is in the cache, and writes what is kept of its file.
func update(ctx context.Context, s *source, out io.Writer) error {
	tarball, err := fetch(ctx, s)
	if err != nil {
		return err
	}
	files, err := unpack(tarball, s.From, "package/LICENSE")
	if err != nil {
		return err
	}
	kept, err := prune(files[s.From], s.Keep)
	if err != nil {
		return fmt.Errorf("cutting %s: %w", s.From, err)
	}
	s.FromSHA, s.ToSHA = sum(files[s.From]), sum(kept)
	fmt.Fprintf(out, "%s %s: %d bytes of %d kept in %s\n", s.Package, s.Version, len(kept), len(files[s.From]), s.To)
	// Both packages are of one project and carry the same licence.
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), files["package/LICENSE"], 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, s.To), kept, 0o644)
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// fetch returns the package's tarball, which is what s.Integrity says or an error.
func fetch(ctx context.Context, s *source) ([]byte, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	// As npm names it.
	file := filepath.Join(cache, strings.ReplaceAll(strings.TrimPrefix(s.Package, "@"), "/", "-")+"-"+s.Version+".tgz")
	if b, err := os.ReadFile(file); err == nil && integrity(b) == s.Integrity {
		return b, nil
	}
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", cache, s.Package+"@"+s.Version)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, errors.New("npm is missing: it comes with Node.js and fetches the published description")
		}
		return nil, fmt.Errorf("npm pack: %w", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if got := integrity(b); got != s.Integrity {
		return nil, fmt.Errorf("the package's integrity is %s, but sources.json pins %q: check it against the registry's before changing sources.json", got, s.Integrity)
	}
	return b, nil
}

func integrity(b []byte) string {
	h := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(h[:])
}

// unpack reads the named files of a tarball.
func unpack(tarball []byte, names ...string) (map[string][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for t := tar.NewReader(z); len(found) < len(names); {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the package does not hold all of %s", strings.Join(names, ", "))
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if h.Name != name {
				continue
			}
			if found[name], err = io.ReadAll(t); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
