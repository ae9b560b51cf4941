package image

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/image/pullrecord"
)

// Keyring finds credentials for an image among those of pull secrets, the most specific first.
type Keyring struct {
	entries []entry
}

type entry struct {
	host, path string // host may hold globs a label; path is a prefix
	auth       *runtimeapi.AuthConfig
	secret     *corev1.Secret // that it is of; nil: of no secret
}

// Credential is what an image may be pulled with, and the secret that holds it.
type Credential struct {
	Auth   *runtimeapi.AuthConfig
	Secret pullrecord.Secret
}

type dockerAuth struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

const maxConfig = 1 << 20

// AddSecret adds what a pull secret holds; secrets of other types hold nothing.
func (k *Keyring) AddSecret(s *corev1.Secret) error {
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		return k.add(s.Data[corev1.DockerConfigJsonKey], false, s)
	case corev1.SecretTypeDockercfg:
		return k.add(s.Data[corev1.DockerConfigKey], true, s)
	}
	return nil
}

// AddConfig adds a docker config.json, or with legacy a .dockercfg (the auths map alone).
func (k *Keyring) AddConfig(data []byte, legacy bool) error { return k.add(data, legacy, nil) }

func (k *Keyring) add(data []byte, legacy bool, secret *corev1.Secret) error {
	if len(data) > maxConfig {
		return fmt.Errorf("registry credentials: %d bytes, at most %d", len(data), maxConfig)
	}
	auths := map[string]dockerAuth{}
	if legacy {
		if err := json.Unmarshal(data, &auths); err != nil {
			return fmt.Errorf("registry credentials: not a docker configuration") // the cause would quote secret data
		}
	} else {
		var config struct {
			Auths map[string]dockerAuth `json:"auths"`
		}
		if err := json.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("registry credentials: not a docker configuration")
		}
		auths = config.Auths
	}
	for registry, a := range auths {
		e := parseRegistry(registry)
		e.secret = secret
		e.auth = &runtimeapi.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken, ServerAddress: registry}
		if a.Username == "" && a.Auth != "" {
			if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(a.Auth)); err == nil {
				e.auth.Username, e.auth.Password, _ = strings.Cut(strings.TrimRight(string(raw), "\x00"), ":")
			}
		}
		k.entries = append(k.entries, e)
	}
	// Longer paths and hosts first, so that the most specific is tried first.
	slices.SortStableFunc(k.entries, func(a, b entry) int {
		return len(b.host+b.path) - len(a.host+a.path)
	})
	return nil
}

// parseRegistry splits host[:port] and path of an auths key, which may be a URL.
func parseRegistry(s string) entry {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	host, p, _ := strings.Cut(s, "/")
	p = strings.Trim(p, "/")
	// Docker's own keys end in an API version that is no part of any image name.
	if p == "v1" || p == "v2" {
		p = ""
	}
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	return entry{host: host, path: p}
}

// For lists the credentials that match the image.
func (k *Keyring) For(image string) []*runtimeapi.AuthConfig {
	var out []*runtimeapi.AuthConfig
	for _, c := range k.Credentials(image) {
		out = append(out, c.Auth)
	}
	return out
}

// Credentials are those that match the image, with the secrets that they are of.
func (k *Keyring) Credentials(image string) []Credential {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil
	}
	host, repo := reference.Domain(named), reference.Path(named)
	var out []Credential
	for _, e := range k.entries {
		if matchHost(e.host, host) && strings.HasPrefix(repo, e.path) {
			c := Credential{Auth: e.auth}
			if s := e.secret; s != nil {
				c.Secret = pullrecord.Secret{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name,
					CredentialHash: pullrecord.Hash(e.auth.Username, e.auth.Password, e.auth.IdentityToken, e.auth.RegistryToken)}
			}
			out = append(out, c)
		}
	}
	return out
}

// matchHost compares label by label; * stands within one label only, and the port must be equal.
func matchHost(pattern, host string) bool {
	ph, pp, _ := strings.Cut(pattern, ":")
	hh, hp, _ := strings.Cut(host, ":")
	if pp != hp {
		return false
	}
	pl, hl := strings.Split(ph, "."), strings.Split(hh, ".")
	if len(pl) != len(hl) {
		return false
	}
	for i := range pl {
		if ok, err := path.Match(pl[i], hl[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
