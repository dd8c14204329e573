package container

import (
	"regexp"
	"slices"
	"strings"
)

const (
	redacted = "[redacted]"
	// A shorter secret is not looked for in texts: it would tear them to
	// pieces and gives little away.
	secretMin = 6
)

var (
	secretName = regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|credential|api_?key|private|auth|cookie|session)|(^|[_-])(key|pw)([_-]|$)`)
	secretFlag = regexp.MustCompile(`^(--?[A-Za-z0-9][A-Za-z0-9_.-]*)=(.*)$`)
	urlUser    = regexp.MustCompile(`(://)[^/@\s:]+:[^/@\s]+@`)
)

// redactor takes secrets out of what is kept as evidence.
type redactor struct{ secrets []string }

// newRedactor learns the secrets of a container from its environment and its
// command.
func newRedactor(env, command []string) *redactor {
	r := new(redactor)
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && secretName.MatchString(name) {
			r.learn(value)
		}
	}
	for i, arg := range command {
		if m := secretFlag.FindStringSubmatch(arg); m != nil && secretName.MatchString(m[1]) {
			r.learn(m[2])
		} else if i > 0 && isSecretFlag(command[i-1]) {
			r.learn(arg)
		}
	}
	// Longest first, so that a secret within another one does not leave a rest.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	return r
}

func isSecretFlag(arg string) bool {
	return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && secretName.MatchString(arg)
}

func (r *redactor) learn(secret string) {
	if len(secret) >= secretMin {
		r.secrets = append(r.secrets, secret)
	}
}

// text replaces every secret in a text.
func (r *redactor) text(s string) string {
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	return urlUser.ReplaceAllString(s, "${1}"+redacted+"@")
}

// env returns an environment without the values of secrets, however short.
func (r *redactor) env(env []string) []string {
	clean := make([]string, 0, len(env))
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if ok && value != "" && secretName.MatchString(name) {
			clean = append(clean, name+"="+redacted)
			continue
		}
		clean = append(clean, r.text(entry))
	}
	return clean
}

// command returns a command without the values of secrets.
func (r *redactor) command(command []string) []string {
	clean := make([]string, 0, len(command))
	for i, arg := range command {
		m := secretFlag.FindStringSubmatch(arg)
		switch {
		case m != nil && secretName.MatchString(m[1]):
			clean = append(clean, m[1]+"="+redacted)
		case i > 0 && isSecretFlag(command[i-1]):
			clean = append(clean, redacted)
		default:
			clean = append(clean, r.text(arg))
		}
	}
	return clean
}
