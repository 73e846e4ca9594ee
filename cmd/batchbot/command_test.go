package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAWrongCommandLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"srve":                     "batchbot: no command \"srve\": did you mean serve?\n",
		"frobnicate":               "batchbot: no command \"frobnicate\": see `batchbot --help`\n",
		"serve --confg x":          "batchbot: unknown flag: --confg: see `batchbot serve --help`\n",
		"version now":              "batchbot: batchbot version takes no argument such as \"now\": see `batchbot version --help`\n",
		"fakehost --ci sometimes":  "batchbot: --ci sometimes: write immediate, delay, manual or none\n",
		"fakehost --listen :0":     "batchbot: --listen :0: fakehost lets anybody in, so it serves on loopback only: write 127.0.0.1:PORT\n",
		"fakehost --listen 8081":   "batchbot: --listen 8081: fakehost lets anybody in, so it serves on loopback only: write 127.0.0.1:PORT\n",
		"fakehost --ci-delay soon": "batchbot: invalid argument \"soon\" for \"--ci-delay\" flag: time: invalid duration \"soon\": see `batchbot fakehost --help`\n",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, nil, strings.Fields(line)...)
			if code != exitUsage || stdout != "" || stderr != want {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d, stderr %q", code, stdout, stderr, exitUsage, want)
			}
		})
	}
}

// Whatever is wrong with the settings is one line with the remedy, and exit code 1.
func TestServeDoesNotStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	// A port on which nobody listens: it was free a moment ago.
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()

	for name, test := range map[string]struct {
		settings string
		environ  []string
		want     string // after "batchbot: "; FILE and DIR stand for the settings file and its folder
	}{
		"unknown key": {settings: "lisen: 127.0.0.1:0",
			want: `FILE: lisen: unknown key "lisen": did you mean listen?`},
		"unknown variable": {environ: []string{"BATCHBOT_LOG__FORMATT=json"},
			want: `BATCHBOT_LOG__FORMATT: unknown key "formatt": did you mean format?`},
		"unreadable key file": {environ: []string{"BATCHBOT_HOSTS__GITHUB__APP__PRIVATE_KEY_FILE=/nowhere/key.pem"},
			want: `FILE: hosts[0].app.private_key_file: "/nowhere/key.pem": there is no such file`},
		"key file that holds no key": {environ: []string{"BATCHBOT_HOSTS__GITHUB__APP__PRIVATE_KEY_FILE=hook"},
			want: "FILE: hosts[0].app.private_key_file: holds no PEM block: use the .pem file GitHub gave when the App's key was made"},
		"empty secret": {environ: []string{"BATCHBOT_HOSTS__GITHUB__WEBHOOK_SECRETS__0="},
			want: "BATCHBOT_HOSTS__GITHUB__WEBHOOK_SECRETS__0: is empty: give the secret or remove the key"},
		"data folder that cannot be": {environ: []string{"BATCHBOT_DATA_DIR=/dev/null/data"},
			want: "data_dir: mkdir /dev/null: not a directory: name a folder that this process may write to"},
		"address in use": {environ: []string{"BATCHBOT_LISTEN=" + taken.Addr().String()},
			want: "listen: listen tcp " + taken.Addr().String() + ": bind: address already in use: stop what uses this address or choose another"},
		"unreachable database": {settings: "database: {driver: mysql, dsn: 'batchbot:hunter2@tcp(" + nobody + ")/batchbot', connect_timeout: 1s}",
			want: "database mysql " + nobody + "/batchbot cannot be reached (connect: connection refused): check that the server runs and that host and port in the DSN are right"},
		"database address that is none": {settings: "database: {driver: mysql, dsn: 'hunter2'}",
			want: "the database DSN cannot be read: it must look like USER:PASSWORD@tcp(HOST:3306)/DATABASE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.configure(t, test.settings)
			for i, variable := range test.environ {
				test.environ[i] = strings.Replace(variable, "=hook", "="+filepath.Join(w.dir, "hook"), 1)
			}
			code, _, stderr := command(t, test.environ, "serve", "--config", w.file)
			want := "batchbot: " + strings.ReplaceAll(test.want, "FILE", w.file) + "\n"
			if code != exitFailed || !sameButOrigin(stderr, want) {
				t.Errorf("exit %d, stderr\n%swant exit %d, stderr\n%s", code, stderr, exitFailed, want)
			}
			if strings.Contains(stderr, "hunter2") || strings.Contains(stderr, hookSecret) {
				t.Errorf("a secret is shown: %s", stderr)
			}
		})
	}
}

// sameButOrigin compares a line whose setting may stand in a variable instead of the file.
func sameButOrigin(got, want string) bool {
	if got == want {
		return true
	}
	_, gotRest, _ := strings.Cut(got, "PRIVATE_KEY_FILE: ")
	_, wantRest, _ := strings.Cut(want, "private_key_file: ")
	return gotRest != "" && gotRest == wantRest
}

func TestServeWithoutASettingsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "batchbot.yml")
	code, _, stderr := command(t, nil, "serve", "--config", file)
	if want := "batchbot: " + file + ": there is no such file: name the settings file with --config FILE\n"; code != exitFailed || stderr != want {
		t.Errorf("exit %d, stderr %q, want %q", code, stderr, want)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, _, stderr := command(t, nil, "migrate", "--config", w.file, "--status")
	if code != exitFailed {
		t.Errorf("exit %d for a database without a schema", code)
	}
	contains(t, "stderr", stderr, "has schema version 0", "run `batchbot migrate`")
	for _, args := range [][]string{{"migrate"}, {"migrate"}, {"migrate", "--status"}} {
		code, stdout, stderr := command(t, nil, append(args, "--config", w.file)...)
		if code != exitDone || stdout != "the schema is up to date: version 2\n" || stderr != "" {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "data", "batchbot.db")); err != nil {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, _ := command(t, nil, "version")
	if code != exitDone || !strings.HasPrefix(stdout, "batchbot ") {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	_, stdout, _ = command(t, nil, "version", "--json")
	var v versionInfo
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.Version == "" || v.Go == "" || v.Platform == "" {
		t.Errorf("%q says %+v, %v", stdout, v, err)
	}
}

func TestServeNeedsANewGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := t.TempDir()
	if err := os.WriteFile(filepath.Join(old, "git"), []byte("#!/bin/sh\necho git version 2.30.2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{old: "2.30.2", t.TempDir(): "git was not found"} {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), self, "serve", "--config", w.file)
		c.Env = []string{asProgram + "=1", "PATH=" + path, "HOME=" + w.dir}
		output, _ := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code != exitFailed || strings.Count(string(output), "\n") != 1 {
			t.Errorf("exit %d, output %s", code, output)
		}
		contains(t, "the error", string(output), want, "install git 2.38 or newer")
	}
}
