package round

import "testing"

func TestAPathIsNamedAsAWordOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, path string
		want       bool
	}{
		{"update workflow `.github/workflows/ci.yml` without", ".github/workflows/ci.yml", true},
		{"ci.yml.", "ci.yml", true},
		{"File big.bin is 120.00 MB", "big.bin", true},
		{"old-ci.yml is protected", "ci.yml", false},
		{"dir/ci.yml is protected", "ci.yml", false},
		{"ci.yml2 is protected", "ci.yml", false},
		{"ci.yml.bak is protected", "ci.yml", false},
		{"ci.yml2 and ci.yml are protected", "ci.yml", true},
		{"nothing of the kind", "ci.yml", false},
		{"refusing to allow a push", "a", false},
		{"the file `a` is protected", "a", true},
		{"", "a", false},
	} {
		if got := namesPath(c.text, c.path); got != c.want {
			t.Errorf("namesPath(%q, %q) = %t", c.text, c.path, got)
		}
	}
}
