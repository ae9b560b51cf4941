package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Paths of the OpenID Connect discovery documents.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// maxAge of the documents in caches, in seconds.
const maxAge = 3600

// Discovery serves what others need to check our tokens by themselves.
type Discovery struct {
	issuer, keysURL string
	keys            *Keys
}

// NewDiscovery checks the addresses. issuer must be an https URL without
// query and fragment; keysURL is where outsiders find KeysPath.
func NewDiscovery(issuer, keysURL string, keys *Keys) (*Discovery, error) {
	if keys == nil || keys.now.Load() == nil {
		return nil, errors.New("token discovery: no keys provided for validating keyset")
	}
	for name, raw := range map[string]string{"issuer": issuer, "keys": keysURL} {
		parsed, err := url.Parse(raw)
		switch {
		case err != nil:
			return nil, fmt.Errorf("token discovery: %s url: %w", name, err)
		case parsed.Scheme != "https":
			return nil, fmt.Errorf("token discovery: %s url must use https scheme, got: %s", name, raw)
		case parsed.RawQuery != "" || parsed.Fragment != "":
			return nil, fmt.Errorf("token discovery: %s url may not include a query or a fragment, got: %s", name, raw)
		}
	}
	return &Discovery{issuer: issuer, keysURL: keysURL, keys: keys}, nil
}

// Configuration answers GET ConfigurationPath.
func (d *Discovery) Configuration(w http.ResponseWriter, r *http.Request) {
	body, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		KeysURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{d.issuer, d.keysURL, []string{"id_token"}, []string{"public"}, d.keys.now.Load().algs})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, "application/json", body)
}

// Keys answers GET KeysPath.
func (d *Discovery) Keys(w http.ResponseWriter, r *http.Request) {
	reply(w, "application/jwk-set+json", d.keys.now.Load().jwks)
}

func reply(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
	_, _ = w.Write(body) // the client is gone when this fails
}
