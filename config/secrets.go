package config

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/batchbot/batchbot/bot"
)

// readSecrets reads every secret that is given as a file and checks those that can be checked without the host.
func (l *loader) readSecrets(s *Settings) {
	l.readSecret("database.dsn_file", s.Database.DSNFile, &s.Database.DSN)
	for i := range s.Hosts {
		h := &s.Hosts[i]
		at := fmt.Sprintf("hosts[%d].", i)
		l.readSecret(at+"token_file", h.TokenFile, &h.Token)
		l.readSecret(at+"app.private_key_file", h.App.PrivateKeyFile, &h.App.PrivateKey)
		l.readList(at+"webhook_secret_files", h.WebhookSecretFiles, &h.WebhookSecrets)
		l.readList(at+"signing_token_files", h.SigningTokenFiles, &h.SigningTokens)
		if h.App.PrivateKey == "" {
			continue
		}
		if _, err := ParsePrivateKey(h.App.PrivateKey); err != nil {
			path := at + "app.private_key"
			if h.App.PrivateKeyFile != "" {
				path = at + "app.private_key_file"
			}
			l.say(path, "%v: use the .pem file GitHub gave when the App's key was made", err)
		}
	}
	for i := range s.API.Tokens {
		t := &s.API.Tokens[i]
		l.readSecret(fmt.Sprintf("api.tokens[%d].token_file", i), t.TokenFile, &t.Token)
	}
	l.checkTokens(s.API.Tokens)
}

func (l *loader) readList(path string, names []string, secrets *[]bot.Secret) {
	for i, name := range names {
		var secret bot.Secret
		l.readSecret(fmt.Sprintf("%s[%d]", path, i), name, &secret)
		*secrets = append(*secrets, secret)
	}
}

func (l *loader) readSecret(path, name string, secret *bot.Secret) {
	if name == "" {
		return
	}
	content, err := l.read(name)
	if err != nil {
		l.say(path, "%s: %s", quoted(name), because(err))
		return
	}
	text := strings.TrimSpace(string(content))
	if text == "" {
		l.say(path, "%s is empty: put the secret there", quoted(name))
		return
	}
	*secret = bot.Secret(text)
}

// ParsePrivateKey reads the RSA key of a GitHub App from PEM. Its errors show nothing of the key.
func ParsePrivateKey(text bot.Secret) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, errors.New("holds no PEM block")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if rsaKey, ok := key.(*rsa.PrivateKey); ok {
			return rsaKey, nil
		}
	}
	return nil, errors.New("holds no RSA private key")
}
