package gitmerge

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/batchbot/batchbot/bot"
)

// runner starts git processes in an environment of their own.
type runner struct {
	path string
	env  []string
}

// setting is one line of git configuration.
type setting struct{ key, value string }

// baseSettings hold for every git process.
var baseSettings = []setting{
	{"core.hooksPath", os.DevNull},
	{"core.quotePath", "false"},
	{"color.ui", "false"},
	{"credential.helper", ""},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"protocol.version", "2"},
	{"advice.fetchShowForcedUpdates", "false"},
	{"push.recurseSubmodules", "no"},
	{"push.followTags", "false"},
	{"http.followRedirects", "false"}, // a renamed repository must be looked up by its id, and credentials stay where they belong
	{"http.lowSpeedLimit", "1"},       // bytes a second; a connection that is dead for lowSpeedTime seconds ends
	{"http.lowSpeedTime", "120"},
}

// inherited are the variables git gets from this process: where programs, proxies and certificates are. Nothing that begins
// with GIT_ passes otherwise, so that nobody's repository, configuration or trace is meant by accident.
var inherited = []string{
	"PATH", "TMPDIR", "LD_LIBRARY_PATH",
	"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
}

func newRunner(path string) runner {
	env := []string{
		"HOME=" + os.DevNull, // also keeps ~/.netrc out
		"XDG_CONFIG_HOME=" + os.DevNull,
		"LC_ALL=C", // answers are parsed
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=",
		"GIT_ALLOW_PROTOCOL=http:https:file",
		"GIT_NO_REPLACE_OBJECTS=1",
	}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return runner{path: path, env: env}
}

// call is one git process. Its arguments are visible to everybody on the machine: no secrets in them.
type call struct {
	args   []string
	stdin  string
	env    []string
	config []setting
	hold   *os.File // a lock the process and its children inherit, so that it stays held as long as one of them lives
}

// answer is what a git process left when it ended by itself.
type answer struct {
	code   int
	stdout []byte
	stderr string // its last stderrLimit bytes
}

const (
	stdoutLimit = 64 << 20
	stderrLimit = 32 << 10
)

// run starts git and waits for it. A non-zero exit is an answer; an error means that git could not be run to its end. When ctx ends,
// git and its children are killed.
func (r runner) run(ctx context.Context, c call) (answer, error) {
	cmd := exec.CommandContext(ctx, r.path, c.args...)
	cmd.Env = append(append(slices.Clip(r.env), c.env...), environment(append(slices.Clip(baseSettings), c.config...))...)
	cmd.Dir = "/" // not inside somebody's repository
	cmd.Stdin = strings.NewReader(c.stdin)
	stdout, stderr := &capped{limit: stdoutLimit}, &tail{limit: stderrLimit}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if c.hold != nil {
		cmd.ExtraFiles = []*os.File{c.hold}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		} else {
			return err
		}
	}
	cmd.WaitDelay = 5 * time.Second

	err := cmd.Run()
	if ctx.Err() != nil {
		return answer{}, fmt.Errorf("git %s: %w", c.args[0], context.Cause(ctx))
	}
	got := answer{stdout: stdout.kept, stderr: string(stderr.kept)}
	var exit *exec.ExitError
	switch {
	case stdout.over:
		return answer{}, fmt.Errorf("git %s printed more than %d MiB", c.args[0], stdoutLimit>>20)
	case errors.As(err, &exit) && exit.Exited():
		got.code = exit.ExitCode()
	case err != nil:
		return answer{}, fmt.Errorf("git %s: %w", c.args[0], err)
	}
	return got, nil
}

// environment passes settings without a trace in argv or on disk.
func environment(settings []setting) []string {
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings))}
	for i, s := range settings {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s.key, "GIT_CONFIG_VALUE_"+n+"="+s.value)
	}
	return env
}

// errBroken marks failures that look like damage in the mirror rather than in the request or on the remote.
var errBroken = errors.New("the mirror is damaged")

// damage is what git says about a damaged repository. What a remote says ("remote: ...") does not count.
var damage = regexp.MustCompile(`(?i)not a git repository|corrupt|bad (object|tree) |object file|unable to (read|find) [0-9a-f]{40}|` +
	`could not read [0-9a-f]{40}|missing (blob|tree|commit|object)|unable to read (tree|sha1 file|blob)|not something we can merge|` +
	`did not send all necessary objects|cannot be accessed|does not match index|reference broken|broken ref|` +
	`unable to resolve reference|invalid sha1 pointer|not a valid object|unable to parse (commit|object)`)

// failure turns a non-zero exit into an error; the words of git are in it, the secret is not.
func failure(c call, got answer, secret bot.Secret) error {
	err := fmt.Errorf("git %s: exit %d: %s", c.args[0], got.code, clean(got.stderr, secret))
	for line := range strings.Lines(got.stderr) {
		if !strings.HasPrefix(line, "remote:") && !strings.Contains(line, "remote error") && damage.MatchString(line) {
			return fmt.Errorf("%w (%w)", err, errBroken)
		}
	}
	return err
}

// clean makes text from git or a host fit for one line of a log or a comment: no control characters, no secret, at most 1000 runes.
func clean(text string, secret bot.Secret) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for _, part := range spellings(secret) {
		text = strings.ReplaceAll(text, part, secret.String())
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 1000 {
		runes = append(runes[:999], '…')
	}
	return string(runes)
}

// spellings lists the forms in which a header could turn up: whole, its value, the credential, and what a Basic one decodes to.
func spellings(secret bot.Secret) []string {
	whole := secret.Reveal()
	if whole == "" {
		return nil
	}
	forms := []string{whole}
	_, value, _ := strings.Cut(whole, ":")
	forms = append(forms, strings.TrimSpace(value))
	if fields := strings.Fields(value); len(fields) > 0 {
		credential := fields[len(fields)-1]
		forms = append(forms, credential)
		if decoded, err := base64.StdEncoding.DecodeString(credential); err == nil {
			forms = append(forms, string(decoded))
			if _, password, ok := strings.Cut(string(decoded), ":"); ok {
				forms = append(forms, password)
			}
		}
	}
	return slices.DeleteFunc(forms, func(form string) bool { return len(form) < 4 })
}

// capped keeps output up to a limit and ends the process that exceeds it.
type capped struct {
	kept  []byte
	limit int
	over  bool
}

func (c *capped) Write(p []byte) (int, error) {
	if len(c.kept)+len(p) > c.limit {
		c.over = true
		return 0, errors.New("too much output")
	}
	c.kept = append(c.kept, p...)
	return len(p), nil
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - t.limit; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}
