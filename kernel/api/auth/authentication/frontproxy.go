package authentication

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	certutil "k8s.io/client-go/util/cert"
)

// FrontProxy is who may say in headers who a request is from: who shows a client
// certificate of an authority, with one of these names.
type FrontProxy struct {
	CAFile       string
	AllowedNames []string // empty: any
	UsernameHeaders, UIDHeaders, GroupHeaders,
	ExtraHeaderPrefixes []string
}

// frontProxy is the way of front proxies; nil: there are none.
func (w *Ways) frontProxy() (authenticator.Request, error) {
	p := w.o.FrontProxy
	if p.CAFile == "" {
		if len(p.AllowedNames) > 0 {
			return nil, errors.New("auth.requestHeader.allowedNames: is given without clientCAFile, whose certificates they are the names of")
		}
		return nil, nil
	}
	if len(p.UsernameHeaders) == 0 {
		return nil, errors.New("auth.requestHeader.usernameHeaders: is empty; want the header that names the user, such as X-Remote-User")
	}
	for key, headers := range map[string][]string{
		"usernameHeaders": p.UsernameHeaders, "uidHeaders": p.UIDHeaders, "groupHeaders": p.GroupHeaders, "extraHeaderPrefixes": p.ExtraHeaderPrefixes,
	} {
		for _, h := range headers {
			if !httpguts.ValidHeaderFieldName(h) {
				return nil, fmt.Errorf("auth.requestHeader.%s: %q is not the name of a header", key, h)
			}
			if strings.EqualFold(h, "Authorization") || strings.HasPrefix(strings.ToLower(h), "impersonate-") {
				return nil, fmt.Errorf("auth.requestHeader.%s: header %q has a meaning of its own; choose another", key, h)
			}
		}
	}
	provider, err := authorityFile("request-header", p.CAFile)
	if err != nil {
		return nil, fmt.Errorf("auth.requestHeader.clientCAFile: %w", err)
	}
	if len(p.AllowedNames) == 0 {
		if err := w.ofNoClients(provider.CurrentCABundleContent()); err != nil {
			return nil, err
		}
	}
	w.proxy = &authenticatorfactory.RequestHeaderConfig{
		UsernameHeaders:     headerrequest.StaticStringSlice(p.UsernameHeaders),
		UIDHeaders:          headerrequest.StaticStringSlice(p.UIDHeaders),
		GroupHeaders:        headerrequest.StaticStringSlice(p.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StaticStringSlice(p.ExtraHeaderPrefixes),
		CAContentProvider:   provider,
		AllowedClientNames:  headerrequest.StaticStringSlice(p.AllowedNames),
	}
	return authenticator.WrapAudienceAgnosticRequest(w.o.Audiences, headerrequest.NewDynamicVerifyOptionsSecure(provider.VerifyOptions,
		w.proxy.AllowedClientNames, w.proxy.UsernameHeaders, w.proxy.UIDHeaders, w.proxy.GroupHeaders, w.proxy.ExtraHeaderPrefixes)), nil
}

// ofNoClients refuses an authority of proxies that is one of clients too: each client
// could say to be anybody.
func (w *Ways) ofNoClients(proxies []byte) error {
	theirs, err := certutil.ParseCertsPEM(proxies)
	if err != nil {
		return fmt.Errorf("auth.requestHeader.clientCAFile: %w", err)
	}
	clients := map[string][]byte{}
	if len(w.o.CAPEM) > 0 {
		clients["the cluster's own"] = w.o.CAPEM
	}
	for _, file := range w.o.ClientCAs {
		if clients["one of "+file], err = os.ReadFile(file); err != nil {
			return fmt.Errorf("auth.clientCAFiles: %w", err)
		}
	}
	for whose, data := range clients {
		certs, err := certutil.ParseCertsPEM(data)
		if err != nil {
			return fmt.Errorf("auth.clientCAFiles: %s: %w", whose, err)
		}
		for _, c := range certs {
			for _, p := range theirs {
				if bytes.Equal(c.RawSubjectPublicKeyInfo, p.RawSubjectPublicKeyInfo) {
					return fmt.Errorf("auth.requestHeader.clientCAFile: authority %q is %s, so that every client could say to be anybody; name the proxies in auth.requestHeader.allowedNames, or give them an authority of their own", p.Subject, whose)
				}
			}
		}
	}
	return nil
}
