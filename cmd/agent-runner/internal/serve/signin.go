package serve

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/server"
)

// A signInFile is the content of the file of --sign-in.
type signInFile struct {
	Issuer           string        `yaml:"issuer"`
	ClientID         string        `yaml:"client_id"`
	ClientSecretEnv  string        `yaml:"client_secret_env"`
	ClientSecretFile string        `yaml:"client_secret_file"`
	RedirectURL      string        `yaml:"redirect_url"`
	Name             string        `yaml:"name"`
	Scopes           []string      `yaml:"scopes"`
	Domains          []string      `yaml:"domains"`
	GroupsClaim      string        `yaml:"groups_claim"`
	TrustEmail       bool          `yaml:"trust_email"`
	Bearer           bool          `yaml:"bearer"`
	Audiences        []string      `yaml:"audiences"`
	SessionTTL       time.Duration `yaml:"session_ttl"`
	IdleTimeout      time.Duration `yaml:"idle_timeout"`
}

// signInOptions reads the file of --sign-in. It returns nil without the flag.
func (c *serveCommand) signInOptions() (*server.SignInOptions, error) {
	if c.signIn == "" {
		return nil, nil
	}
	b, err := cli.ReadFile(c.signIn, maxKeyFile)
	if err != nil {
		return nil, cli.Usagef("--sign-in: %w", err)
	}
	var f signInFile
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&f); err != nil {
		return nil, cli.Usagef("--sign-in %s: %s", c.signIn, strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	secret, err := c.clientSecret(&f)
	if err != nil {
		return nil, cli.Usagef("--sign-in %s: %w", c.signIn, err)
	}
	if f.SessionTTL < 0 || f.IdleTimeout < 0 {
		return nil, cli.Usagef("--sign-in %s: want durations above 0, such as 12h", c.signIn)
	}
	return &server.SignInOptions{
		Issuer:       f.Issuer,
		ClientID:     f.ClientID,
		ClientSecret: secret,
		RedirectURL:  f.RedirectURL,
		Name:         f.Name,
		Scopes:       f.Scopes,
		Domains:      f.Domains,
		GroupsClaim:  f.GroupsClaim,
		TrustEmail:   f.TrustEmail,
		Bearer:       f.Bearer,
		Audiences:    f.Audiences,
		SessionTTL:   f.SessionTTL,
		IdleTimeout:  f.IdleTimeout,
	}, nil
}

// clientSecret returns the secret of this server at the provider, or "" if the file names none.
func (c *serveCommand) clientSecret(f *signInFile) (string, error) {
	switch {
	case f.ClientSecretEnv != "" && f.ClientSecretFile != "":
		return "", fmt.Errorf("client_secret_env and client_secret_file are mutually exclusive")
	case f.ClientSecretEnv != "":
		secret := c.env.Getenv(f.ClientSecretEnv)
		if secret == "" {
			return "", fmt.Errorf("client_secret_env: $%s is not set", f.ClientSecretEnv)
		}
		return secret, nil
	case f.ClientSecretFile == "":
		return "", nil
	}
	info, err := os.Stat(f.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("client_secret_file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("client_secret_file: others may read %[1]s; run: chmod 600 %[1]s", f.ClientSecretFile)
	}
	b, err := cli.ReadFile(f.ClientSecretFile, maxKeyFile)
	return strings.TrimSpace(string(b)), err
}
