package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/knadh/koanf/parsers/yaml"

	"github.com/batchbot/batchbot/bot"
)

// files is a file system for load.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	if content, ok := f[name]; ok {
		return []byte(content), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

const host = `
hosts:
  - name: github-main
    token: ghp_secret
    webhook_secrets: [hook-secret]
`

func TestASmallFileIsEnough(t *testing.T) {
	t.Parallel()
	s, err := load("b.yml", nil, files{"b.yml": host}.read)
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Database.Path = filepath.Join("data", "batchbot.db")
	want.Hosts = []Host{{
		Name: "github-main", Type: "github", Token: "ghp_secret", WebhookSecrets: []bot.Secret{"hook-secret"}, WriteSpacing: time.Second,
		WebURL: "https://github.com", APIURL: "https://api.github.com", GitURL: "https://github.com",
	}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %#v\nwant %#v", s, want)
	}
}

func TestAGitLabHost(t *testing.T) {
	t.Parallel()
	s, err := load("b.yml", nil, files{
		"b.yml": "hosts: [{name: lab, type: gitlab, web_url: 'https://git.example.org/lab/', token_file: token, signing_token_files: [signing]}]",
		"token": "glpat-1\n", "signing": "whsec_x\n",
	}.read)
	if err != nil {
		t.Fatal(err)
	}
	h := s.Hosts[0]
	if h.WebURL != "https://git.example.org/lab" || h.APIURL != "https://git.example.org/lab/api/v4" || h.GitURL != h.WebURL ||
		h.Token.Reveal() != "glpat-1" || len(h.SigningTokens) != 1 || h.SigningTokens[0].Reveal() != "whsec_x" {
		t.Errorf("host %+v", h)
	}
	if s, err = load("b.yml", nil, files{"b.yml": "hosts: [{name: lab, type: gitlab, token: t, webhook_secrets: [s]}]"}.read); err != nil || s.Hosts[0].APIURL != "https://gitlab.com/api/v4" {
		t.Errorf("gitlab.com: %+v, %v", s.Hosts, err)
	}
}

func TestTheEnvironmentWins(t *testing.T) {
	t.Parallel()
	s, err := load("b.yml", []string{
		"PATH=/bin",
		"BATCHBOT_LISTEN=0.0.0.0:0",
		"BATCHBOT_DATABASE__DRIVER=mysql",
		"BATCHBOT_DATABASE__DSN=u:p@tcp(db)/b",
		"BATCHBOT_DATABASE__MIGRATE=true",
		"BATCHBOT_ROUNDS__POLL=200ms",
		"BATCHBOT_HOSTS__GITHUB_MAIN__WEB_URL=http://127.0.0.1:9/",
		"BATCHBOT_HOSTS__GITHUB_MAIN__APP__ID=7",
		"BATCHBOT_HOSTS__GITHUB_MAIN__WEBHOOK_SECRETS__0=rotated",
		"BATCHBOT_HOSTS__GITHUB_MAIN__WEBHOOK_SECRETS__1=new",
		"BATCHBOT_HOSTS__GITHUB_MAIN__APP__PRIVATE_KEY_FILE=key.pem",
	}, files{"b.yml": strings.ReplaceAll(host, "    token: ghp_secret\n", ""), "key.pem": testKey}.read)
	if err != nil {
		t.Fatal(err)
	}
	h := s.Hosts[0]
	if s.Listen != "0.0.0.0:0" || s.Database.DSN.Reveal() != "u:p@tcp(db)/b" || !s.Database.Migrate || s.Rounds.Poll != 200*time.Millisecond {
		t.Errorf("settings do not follow the environment: %#v", s)
	}
	if h.APIURL != "http://127.0.0.1:9/api/v3" || h.GitURL != "http://127.0.0.1:9" || h.App.ID != 7 || h.App.PrivateKey.Reveal() != strings.TrimSpace(testKey) {
		t.Errorf("host does not follow the environment: %#v", h)
	}
	if got := h.WebhookSecrets; len(got) != 2 || got[0] != "rotated" || got[1] != "new" {
		t.Errorf("webhook secrets = %q, %q", got[0].Reveal(), got[1].Reveal())
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	s, err := load("b.yml", nil, files{
		"b.yml": "database: {driver: mysql, dsn_file: dsn}\nhosts:\n- name: h\n  token_file: token\n  webhook_secret_files: [old, new]\n",
		"dsn":   "u:p@tcp(db)/b\n", "token": " t \n", "old": "one\n", "new": "two\n",
	}.read)
	if err != nil {
		t.Fatal(err)
	}
	h := s.Hosts[0]
	if s.Database.DSN.Reveal() != "u:p@tcp(db)/b" || h.Token.Reveal() != "t" || h.WebhookSecrets[0] != "one" || h.WebhookSecrets[1] != "two" {
		t.Errorf("secrets are not what the files hold: %#v", s)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const start = "hosts:\n- name: h\n  webhook_secrets: [s]\n  "
	for name, test := range map[string]struct {
		file    string
		environ []string
		files   files
		want    []string
	}{
		"no hosts": {"listen: 127.0.0.1:1", nil, nil, []string{
			"b.yml: hosts: is missing: at least one is needed, see batchbot.example.yml"}},
		"misspelt key": {host + "lisen: 127.0.0.1:1", nil, nil, []string{
			`b.yml: lisen: unknown key "lisen": did you mean listen?`}},
		"misspelt nested key": {host + "database: {pth: x}", nil, nil, []string{
			`b.yml: database.pth: unknown key "pth": did you mean path?`}},
		"key in the wrong place": {host + "private_key_file: x", nil, nil, []string{
			`b.yml: private_key_file: unknown key "private_key_file": it belongs to hosts.app`}},
		"key from nowhere": {host + "rounds: {concurrency: 3}", nil, nil, []string{
			`b.yml: rounds.concurrency: unknown key "concurrency": the keys here are poll`}},
		"misspelt key of a host": {start + "tokken: t", nil, nil, []string{
			`b.yml: hosts[0].tokken: unknown key "tokken": did you mean token?`}},
		"misspelt variable": {host, []string{"BATCHBOT_LISTN=x"}, nil, []string{
			`BATCHBOT_LISTN: unknown key "listn": did you mean listen?`}},
		"variable for a host that is not there": {host, []string{"BATCHBOT_HOSTS__GITLAB__TOKEN=x"}, nil, []string{
			"BATCHBOT_HOSTS__GITLAB…: no host has this name in b.yml: write GITHUB_MAIN"}},
		"wrong types": {host + "listen: 8080\nshutdown_timeout: 10\ndatabase: yes\nlook: {interval: soon}", nil, nil, []string{
			"b.yml: database: is not a section: write below it, indented, any of driver, path, dsn, dsn_file, migrate, connect_timeout or max_connections",
			"b.yml: listen: 8080 is not text: write one value, in quotes if it is a number",
			`b.yml: look.interval: "soon" is not a duration: write a number with a unit, such as 500ms, 30s or 2h`,
			"b.yml: shutdown_timeout: 10 is not a duration: write a number with a unit, such as 500ms, 30s or 2h"}},
		"wrong values": {host + "listen: localhost\npublic_url: example.com\nenvironment: Prod\nlog: {level: loud, format: xml}\nrounds: {poll: 1ms}\nlook: {interval: 1h}", nil, nil, []string{
			`b.yml: listen: "localhost" is not an address to listen on: write host:port, such as 127.0.0.1:8080`,
			`b.yml: public_url: "example.com" is not a plain web address: write https://name or https://name/path, without user, password, query or fragment`,
			`b.yml: environment: "Prod" is not a name: 1 to 32 lower-case letters, digits and hyphens, beginning with a letter`,
			"b.yml: rounds.poll: 1ms is too small: at least 100ms",
			"b.yml: look.max_interval: 10m0s is less than interval: make it as long or longer",
			`b.yml: log.level: "loud" is not possible: write debug, info, warn or error`,
			`b.yml: log.format: "xml" is not possible: write json or text`}},
		"retention that forgets too early": {host + "retention: {payloads: 720h, deliveries: 168h, commands: 72h, errands: 1m}", nil, nil, []string{
			"b.yml: retention.deliveries: 168h0m0s is less than payloads: make it as long or longer",
			"b.yml: retention.commands: 72h0m0s is less than deliveries: make it as long or longer",
			"b.yml: retention.errands: 1m0s is too small: at least 1h"}},
		"retention shorter than hosts redeliver": {host + "retention: {payloads: 1h, deliveries: 24h, commands: 0s}", nil, nil, []string{
			"b.yml: retention.deliveries: 24h0m0s is too small: at least 72h",
			"b.yml: retention.commands: 0s is too small: at least 72h"}},
		"a pool of many": {host + "database: {max_connections: many}", nil, nil, []string{
			`b.yml: database.max_connections: "many" is not a whole number`}},
		"a pool too small": {host + "database: {max_connections: 1}", nil, nil, []string{
			"b.yml: database.max_connections: 1 is too small: at least 4"}},
		"wrong value in a variable": {host, []string{"BATCHBOT_LOG__LEVEL=loud"}, nil, []string{
			`BATCHBOT_LOG__LEVEL: "loud" is not possible: write debug, info, warn or error`}},
		"two hosts of one name": {host + "  - {name: github-main, token: t, webhook_secrets: [s]}", nil, nil, []string{
			`b.yml: hosts: two of them are named "github-main": rows refer to them by name, give each its own`}},
		"host without a name": {"hosts: [{token: t, webhook_secrets: [s]}]", nil, nil, []string{
			"b.yml: hosts[0].name: is missing: give it a short name of lower-case letters, digits and hyphens"}},
		"host with a bad name and type": {"hosts: [{name: a/b, type: svn, token: t, webhook_secrets: [s]}]", nil, nil, []string{
			`b.yml: hosts[0].name: "a/b" is not a name: 1 to 32 lower-case letters, digits and hyphens, beginning with a letter`,
			`b.yml: hosts[0].type: "svn" is not possible: write github or gitlab`}},
		"password in an address": {start + "token: t\n  api_url: https://u:hunter2@x", nil, nil, []string{
			"b.yml: hosts[0].api_url: the value is not a plain web address: write https://name or https://name/path, without user, password, query or fragment"}},
		"an app on GitLab": {"hosts: [{name: h, type: gitlab, app: {id: 1, private_key_file: key.pem}, webhook_secrets: [s]}]", nil, files{"key.pem": testKey}, []string{
			"b.yml: hosts[0].app: belongs to type: github: on GitLab the bot acts with a token of a project, a group or a user of its own"}},
		"a signing token on GitHub": {"hosts: [{name: h, token: t, webhook_secrets: [s], signing_tokens: [w]}]", nil, nil, []string{
			"b.yml: hosts[0].signing_tokens: belongs to type: gitlab: remove it"}},
		"three signing tokens": {"hosts: [{name: h, type: gitlab, token: t, signing_tokens: [a, b, c]}]", nil, nil, []string{
			"b.yml: hosts[0].signing_tokens: 3 signing tokens are given: name one, or two while a new one is rolled out"}},
		"no credentials": {"hosts: [{name: h, webhook_secrets: [s]}]", nil, nil, []string{
			"b.yml: hosts[0].token: exactly one is needed of app, token or token_file"}},
		"two credentials": {start + "token: t\n  app: {id: 1, private_key_file: k}", nil, nil, []string{
			"b.yml: hosts[0].token: exactly one is needed of app, token or token_file"}},
		"half an app": {start + "app: {private_key_file: k, private_key: x}", nil, nil, []string{
			"b.yml: hosts[0].app.id: is missing: the number GitHub shows as App ID on the App's settings page",
			"b.yml: hosts[0].app.private_key_file: exactly one is needed of private_key or private_key_file"}},
		"no webhook secret": {"hosts: [{name: h, token: t}]", nil, nil, []string{
			"b.yml: hosts[0].webhook_secret_files: 0 secrets are given: name one, or two while a new one is rolled out, in webhook_secrets or webhook_secret_files"}},
		"empty webhook secret": {"hosts: [{name: h, token: t, webhook_secrets: ['']}]", nil, nil, []string{
			"b.yml: hosts[0].webhook_secrets[0]: is empty: give the secret or remove the key"}},
		"empty secret in a variable": {host, []string{"BATCHBOT_HOSTS__GITHUB_MAIN__TOKEN="}, nil, []string{
			"BATCHBOT_HOSTS__GITHUB_MAIN__TOKEN: is empty: give the secret or remove the key"}},
		"secret that is a number": {"hosts: [{name: h, token: 12345, webhook_secrets: [s]}]", nil, nil, []string{
			"b.yml: hosts[0].token: is not text: put it in quotes"}},
		"secret files": {"hosts: [{name: h, token_file: gone, webhook_secret_files: [empty]}]", nil, files{"empty": "\n"}, []string{
			`b.yml: hosts[0].token_file: "gone": there is no such file`,
			`b.yml: hosts[0].webhook_secret_files[0]: "empty" is empty: put the secret there`}},
		"key file that holds no key": {start + "app: {id: 1, private_key_file: k}", nil, files{"k": "ghp_secret"}, []string{
			"b.yml: hosts[0].app.private_key_file: holds no PEM block: use the .pem file GitHub gave when the App's key was made"}},
		"key file that holds another key": {start + "app: {id: 1, private_key_file: k}", nil, files{"k": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"}, []string{
			"b.yml: hosts[0].app.private_key_file: holds no RSA private key: use the .pem file GitHub gave when the App's key was made"}},
		"mysql without a dsn": {host + "database: {driver: mysql, path: x}", nil, nil, []string{
			"b.yml: database.path: belongs to driver: sqlite: remove it or change database.driver",
			"b.yml: database.dsn: exactly one is needed of dsn or dsn_file"}},
		"sqlite with a dsn": {host + "database: {dsn: 'u:p@/b'}", nil, nil, []string{
			"b.yml: database.dsn: belongs to driver: mysql: remove it or change database.driver"}},
		"duplicate key": {host + "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", nil, nil, []string{
			`b.yml: line 7: mapping key "listen" already defined at line 6: remove one of the two`}},
		"not YAML": {"listen: [", nil, nil, []string{
			"b.yml: is not YAML: line 1: did not find expected node content"}},
		"a secret instead of a file": {"ghp_secret", nil, nil, []string{
			"b.yml: is not a list of settings: write one per line, as in listen: 127.0.0.1:8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := files{"b.yml": test.file}
			maps.Copy(all, test.files)
			_, err := load("b.yml", test.environ, all.read)
			var found Mistakes
			if !errors.As(err, &found) {
				t.Fatalf("err = %v, want mistakes", err)
			}
			if !reflect.DeepEqual([]string(found), test.want) {
				t.Errorf("got\n%s\nwant\n%s", found.Error(), strings.Join(test.want, "\n"))
			}
			for _, secret := range []string{"ghp_secret", "hook-secret", "hunter2", "12345"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q shows a secret", err)
				}
			}
		})
	}
}

func TestAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "batchbot.yml")
	_, err := Load(path, nil)
	if want := path + ": there is no such file: name the settings file with --config FILE"; err == nil || err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	s, err := load("b.yml", nil, files{"b.yml": host}.read)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{sprint("%v", s), sprint("%+v", s), sprint("%#v", s), sprint("%s", s.Hosts)} {
		if strings.Contains(text, "ghp_secret") || strings.Contains(text, "hook-secret") {
			t.Errorf("%s shows a secret", text)
		}
	}
}

func TestBearerTokensOfTheAPI(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	read := func(api string) (Settings, error) {
		fs := files{"secret": "hook-secret\n", "t": token + "\n", "other": "fedcba9876543210", "short": "0123456789abcde", "blank": "0123456789 abcdef",
			"b.yml": "hosts: [{name: github, token: ghp_x, webhook_secret_files: [secret]}]\napi: {tokens: [" + api + "]}"}
		return load("b.yml", nil, fs.read)
	}
	s, err := read("{name: release, role: operator, token_file: t}, {name: board, role: read, token_file: other}")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.API.Tokens[0]; got.Name != "release" || got.Role != "operator" || got.Token.Reveal() != token {
		t.Errorf("a token was read as %+v", got)
	}
	for api, want := range map[string]string{
		"{name: a, role: read, token_file: short}":                                        `b.yml: api.tokens[0].token_file: holds 15 characters and 16 are the fewest`,
		"{name: a, role: read, token: 0123456789abcde}":                                   `b.yml: api.tokens[0].token: holds 15 characters and 16 are the fewest`,
		"{name: a, role: read, token_file: blank}":                                        `b.yml: api.tokens[0].token_file: holds something else than visible ASCII`,
		"{name: a, role: read}":                                                           `b.yml: api.tokens[0].token_file: exactly one is needed of token or token_file`,
		"{name: a, role: read, token_file: t, token: fedcba9876543210}":                   `b.yml: api.tokens[0].token_file: exactly one is needed of token or token_file`,
		"{name: a, role: admin, token_file: t}":                                           `b.yml: api.tokens[0].role: "admin" is not possible: write read, write or operator`,
		"{name: A b, role: read, token_file: t}":                                          `b.yml: api.tokens[0].name: "A b" is not a name`,
		"{name: a, role: read, token_file: t}, {name: a, role: write, token_file: other}": `b.yml: api.tokens: two of them are named "a"`,
		"{name: a, role: read, token_file: t}, {name: b, role: operator, token_file: t}":  `b.yml: api.tokens[1].token_file: is the token of another name as well`,
		"{name: a, role: read, token_file: nowhere}":                                      `b.yml: api.tokens[0].token_file: "nowhere": there is no such file`,
		"{name: a, role: read, token_file: t, tokn: x}":                                   `b.yml: api.tokens[0].tokn: unknown key "tokn": did you mean token?`,
	} {
		_, err := read(api)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", api, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "0123456789") || strings.Contains(err.Error(), "fedcba")) {
			t.Errorf("%s: the mistake shows a token: %v", api, err)
		}
	}
}

// The example is what people start from: it is read by the code it describes.
func TestTheExampleIsRead(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../batchbot.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	fs := files{"b.yml": string(content), "/etc/batchbot/github-app.pem": testKey, "/etc/batchbot/webhook-secret": "secret"}
	if _, err := load("b.yml", nil, fs.read); err != nil {
		t.Error(err)
	}
}

func TestTheExampleNamesEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../batchbot.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	full := regexp.MustCompile(`(?m)^( *)#([a-z])`).ReplaceAll(content, []byte("$1$2"))
	tree, err := yaml.Parser().Unmarshal(full)
	if err != nil {
		t.Fatal(err)
	}
	l := loader{file: "example", fromEnv: map[string]string{}}
	s := Defaults()
	l.fill("", &s, tree)
	if len(l.mistakes) > 0 {
		t.Error(l.mistakes)
	}
	var walk func(path string, typ reflect.Type, tree map[string]any)
	walk = func(path string, typ reflect.Type, tree map[string]any) {
		fields, keys := fieldsOf(typ)
		for _, key := range keys {
			value, ok := tree[key]
			if !ok {
				t.Errorf("the example does not name %s", join(path, key))
				continue
			}
			switch ft := typ.Field(fields[key]).Type; {
			case ft.Kind() == reflect.Struct:
				walk(join(path, key), ft, value.(map[string]any))
			case ft == reflect.TypeFor[[]Host](), ft == reflect.TypeFor[[]APIToken]():
				named := make(map[string]any) // by one element or another
				for _, element := range value.([]any) {
					maps.Copy(named, element.(map[string]any))
				}
				walk(join(path, key), ft.Elem(), named)
			}
		}
	}
	walk("", reflect.TypeFor[Settings](), tree)

	want := Defaults()
	want.derive()
	s.PublicURL, s.Database.DSN, s.Database.DSNFile = "", "", ""
	h := s.Hosts[0]
	s.Hosts, s.API.Tokens = nil, nil
	if !reflect.DeepEqual(s, want) {
		t.Errorf("defaults in the example are %#v, those of the code %#v", s, want)
	}
	settings := Settings{Hosts: []Host{defaultHost()}}
	settings.derive()
	if d := settings.Hosts[0]; h.WebURL != d.WebURL || h.APIURL != d.APIURL || h.GitURL != d.GitURL || h.WriteSpacing != d.WriteSpacing || h.Type != d.Type {
		t.Errorf("the host's defaults in the example are %#v, those of the code %#v", h, d)
	}
}
