package authentication

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Files is what an operator configures. The zero value has none of these ways.
type Files struct {
	// Config is an AuthenticationConfiguration: issuers of JWTs, and who nobody is.
	Config string
	// ClientCAs are PEM files of further authorities of client certificates.
	ClientCAs []string
	// Tokens is a CSV file: token, user, uid, and groups in one field.
	Tokens string
	// Webhook is asked who a token belongs to.
	Webhook Webhook
	// FrontProxy is who may say in headers who a request is from.
	FrontProxy FrontProxy
}

// Options of the ways. ClusterCA, CAPEM, Service, Audiences and Logger are required.
type Options struct {
	Files
	// Identity comes first: the ways in that stand for somebody by themselves.
	Identity authenticator.Request
	// ClusterCA and CAPEM are the cluster's own authority.
	ClusterCA *x509.CertPool
	CAPEM     []byte
	// Service are the authenticators of service accounts' tokens, Bootstrap that of
	// bootstrap tokens; it may be nil.
	Service   []authenticator.Token
	Bootstrap authenticator.Token
	// Audiences are those of the API server, Issuers those whose tokens Service knows.
	Audiences, Issuers []string
	// EverybodyMay says that authorization allows everything: then there is no
	// nobody, but where the file asks for it.
	EverybodyMay bool
	// ServerID is this server in metrics.
	ServerID string
	Logger   *slog.Logger
}

// Ways are the ways in.
type Ways struct {
	o           Options
	request     authenticator.Request
	authorities []dynamiccertificates.CAContentProvider
	proxy       *authenticatorfactory.RequestHeaderConfig
	issuers     *issuers // nil without a file
}

// New reads what is configured. What it starts ends with ctx.
func New(ctx context.Context, o Options) (*Ways, error) {
	if o.ClusterCA == nil || len(o.CAPEM) == 0 || len(o.Service) == 0 || len(o.Audiences) == 0 || o.Logger == nil {
		return nil, errors.New("authentication: the cluster's authority, tokens of service accounts, audiences and a logger are required")
	}
	own, err := dynamiccertificates.NewStaticCAContent("client-ca", o.CAPEM)
	if err != nil {
		return nil, fmt.Errorf("client ca: %w", err)
	}
	w := &Ways{o: o, authorities: []dynamiccertificates.CAContentProvider{own}}
	ways, err := w.certificates()
	if err != nil {
		return nil, err
	}
	tokens, err := w.tokens(ctx)
	if err != nil {
		return nil, err
	}
	ways = append(ways, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	known := unreserved(union.New(ways...))
	if o.Identity != nil {
		known = union.NewFailOnError(o.Identity, known)
	}
	w.request = group.NewAuthenticatedGroupAdder(known)
	if nobody := w.nobody(); nobody != nil {
		// Who shows a wrong credential is not taken for nobody.
		w.request = union.NewFailOnError(w.request, nobody)
	}
	return w, nil
}

// Request is the whole chain.
func (w *Ways) Request() authenticator.Request { return w.request }

// Authorities are those that clients are told of in the handshake. Who serves runs
// them, which reads their files again.
func (w *Ways) Authorities() dynamiccertificates.CAContentProvider {
	return dynamiccertificates.NewUnionCAContentProvider(w.authorities...)
}

// ClientCAs are the authorities of clients: those of front proxies are not among them.
func (w *Ways) ClientCAs() dynamiccertificates.CAContentProvider {
	return dynamiccertificates.NewUnionCAContentProvider(w.authorities[:1+len(w.o.ClientCAs)]...)
}

// FrontProxy is what the headers of front proxies are, which nobody behind
// authentication sees; nil: there are no front proxies.
func (w *Ways) FrontProxy() *authenticatorfactory.RequestHeaderConfig { return w.proxy }

// Follow takes up changes of the AuthenticationConfiguration until ctx ends.
func (w *Ways) Follow(ctx context.Context) {
	if w.issuers != nil {
		w.issuers.follow(ctx)
	}
}

// certificates are the ways by client certificates. Those that verified are
// remembered by authority, until its file changes.
func (w *Ways) certificates() ([]authenticator.Request, error) {
	var ways []authenticator.Request
	proxy, err := w.frontProxy()
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		ways = append(ways, proxy)
	}
	options := requestx509.DefaultVerifyOptions()
	options.Roots = w.o.ClusterCA
	ways = append(ways, newClientCerts(options))
	for _, file := range w.o.ClientCAs {
		provider, err := authorityFile("client-ca", file)
		if err != nil {
			return nil, fmt.Errorf("auth.clientCAFiles: %w", err)
		}
		w.authorities = append(w.authorities, provider)
		ways = append(ways, newAuthority(provider))
	}
	if w.proxy != nil {
		w.authorities = append(w.authorities, w.proxy.CAContentProvider)
	}
	return ways, nil
}

// tokens joins the ways by tokens: those that are decided here before those that ask
// others.
func (w *Ways) tokens(ctx context.Context) (authenticator.Token, error) {
	var all []authenticator.Token
	here := func(t authenticator.Token) authenticator.Token {
		return authenticator.WrapAudienceAgnosticToken(w.o.Audiences, t)
	}
	if w.o.Tokens != "" {
		tokens, err := readTokens(w.o.Tokens, w.o.Logger)
		if err != nil {
			return nil, fmt.Errorf("auth.tokenFile: %w", err)
		}
		all = append(all, here(tokens))
	}
	all = append(all, w.o.Service...)
	if w.o.Bootstrap != nil {
		all = append(all, here(w.o.Bootstrap))
	}
	if w.o.Config != "" {
		var err error
		if w.issuers, err = newIssuers(ctx, w.o); err != nil {
			return nil, err
		}
		all = append(all, here(w.issuers))
	}
	if w.o.Webhook.File != "" {
		hook, err := newWebhook(w.o.Webhook, w.o.Audiences)
		if err != nil {
			return nil, fmt.Errorf("auth.tokenWebhook.configFile %s: %w", w.o.Webhook.File, err)
		}
		all = append(all, hook)
	}
	return notTooLarge{tokenunion.New(all...)}, nil
}

// nobody is the way of requests without a credential; nil: there is none.
func (w *Ways) nobody() authenticator.Request {
	if w.issuers != nil && w.issuers.anonymous != nil {
		if !w.issuers.anonymous.Enabled {
			return nil
		}
		return anonymous.NewAuthenticator(w.issuers.anonymous.Conditions)
	}
	if w.o.EverybodyMay {
		w.o.Logger.Warn("requests without a credential are refused, since authorization allows everything; set anonymous in auth.authenticationConfig to let them in")
		return nil
	}
	return anonymous.NewAuthenticator(nil)
}

// maxAsking bounds all tries of one question to a webhook.
const maxAsking = time.Minute
