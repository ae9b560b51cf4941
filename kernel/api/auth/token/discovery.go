package token

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	jose "github.com/go-jose/go-jose/v4"
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
	configuration, keys []byte
}

// NewDiscovery renders the documents once. issuer must be an https URL without
// query and fragment; keysURL is where outsiders find KeysPath.
func NewDiscovery(issuer, keysURL string, keys ...*ecdsa.PublicKey) (*Discovery, error) {
	if len(keys) == 0 {
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
	var set jose.JSONWebKeySet
	for _, key := range keys {
		id, err := keyID(key)
		if err != nil {
			return nil, fmt.Errorf("token discovery: %w", err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Algorithm: string(algorithm), Key: key, KeyID: id, Use: "sig"})
	}
	keyset, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("token discovery: %w", err)
	}
	configuration, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		KeysURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{issuer, keysURL, []string{"id_token"}, []string{"public"}, []string{string(algorithm)}})
	if err != nil {
		return nil, fmt.Errorf("token discovery: %w", err)
	}
	return &Discovery{configuration: configuration, keys: keyset}, nil
}

// Configuration answers GET ConfigurationPath.
func (d *Discovery) Configuration(w http.ResponseWriter, r *http.Request) {
	reply(w, "application/json", d.configuration)
}

// Keys answers GET KeysPath.
func (d *Discovery) Keys(w http.ResponseWriter, r *http.Request) {
	reply(w, "application/jwk-set+json", d.keys)
}

func reply(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
	_, _ = w.Write(body) // the client is gone when this fails
}
