package authentication

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	certutil "k8s.io/client-go/util/cert"

	"pintle.dev/pintle/kernel/api/answerlimit"
	"pintle.dev/pintle/kernel/secretfile"
)

const (
	// maxKeys bounds what an issuer answers.
	maxKeys = 4 << 20
	// remembered is how long a token that was good is not verified again.
	remembered = 10 * time.Second
	// lookEvery is how often the file is read where no change of it was seen.
	lookEvery = time.Minute
	// takeUp is how long issuers of a changed file may take to answer, and how long
	// requests under way go on with those of before.
	takeUp = time.Minute
)

var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(apiserver.SchemeGroupVersion)
})

// issuers are those of JWTs, by the AuthenticationConfiguration as it is now. It
// implements authenticator.Token.
type issuers struct {
	file, serverID string
	// disallowed are the issuers whose tokens are of service accounts.
	disallowed []string
	log        *slog.Logger
	compiler   authenticationcel.Compiler
	// lifetime ends what the issuers of any file have started.
	lifetime context.Context //nolint:containedctx // the library takes one for what it starts
	// anonymous is what the file said at the start, which no change of it changes.
	anonymous *apiserver.AnonymousAuthConfig
	read      []byte
	now       atomic.Pointer[issuerSet]
}

// issuerSet is the issuers of one content of the file.
type issuerSet struct {
	authenticator.Token
	healthy func() error
	end     context.CancelFunc
	urls    []string
}

func newIssuers(ctx context.Context, o Options) (*issuers, error) {
	i := &issuers{file: o.Config, serverID: o.ServerID, disallowed: o.Issuers, log: o.Logger, compiler: authenticationcel.NewDefaultCompiler(), lifetime: ctx}
	data, config, err := i.load()
	if err != nil {
		return nil, i.fault(err)
	}
	i.read, i.anonymous = data, config.Anonymous
	set, err := i.make(config)
	if err != nil {
		return nil, i.fault(err)
	}
	i.now.Store(set)
	return i, nil
}

func (i *issuers) fault(err error) error {
	return fmt.Errorf("auth.authenticationConfig %s: %w", i.file, err)
}

// AuthenticateToken implements authenticator.Token.
func (i *issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return i.now.Load().AuthenticateToken(ctx, token)
}

// load reads the file and checks it as kube-apiserver does.
func (i *issuers) load() ([]byte, *apiserver.AuthenticationConfiguration, error) {
	data, err := secretfile.ReadGuarded(i.file)
	if err != nil {
		return nil, nil, err
	}
	config, err := i.parse(data)
	return data, config, err
}

func (i *issuers) parse(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	obj, err := runtime.Decode(decoder(), data)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("is of another kind; want AuthenticationConfiguration (apiserver.config.k8s.io/v1)")
	}
	if errs := validation.ValidateAuthenticationConfiguration(i.compiler, config, i.disallowed); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	for n, jwt := range config.JWT {
		if jwt.Issuer.EgressSelectorType != "" {
			return nil, fmt.Errorf("jwt[%d].issuer.egressSelectorType: there are no egress selectors here; leave it out", n)
		}
	}
	return config, nil
}

// make makes the authenticators of a configuration. Each reaches its issuer in the
// background, so that nobody waits for one that hangs.
func (i *issuers) make(config *apiserver.AuthenticationConfiguration) (_ *issuerSet, err error) {
	ctx, end := context.WithCancel(i.lifetime)
	defer func() {
		if err != nil {
			end()
		}
	}()
	set := &issuerSet{end: end}
	var tokens []authenticator.Token
	var checks []func() error
	for n, jwt := range config.JWT {
		client, err := issuerClient(jwt.Issuer)
		if err != nil {
			return nil, fmt.Errorf("jwt[%d].issuer.certificateAuthority: %w", n, err)
		}
		one, err := oidc.New(ctx, oidc.Options{
			JWTAuthenticator: jwt, Client: client, Compiler: i.compiler, DisallowedIssuers: i.disallowed,
			SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(), APIServerID: i.serverID,
		})
		if err != nil {
			return nil, fmt.Errorf("jwt[%d]: %w", n, err)
		}
		if mayNameTheSystem(jwt) {
			i.log.Warn("an issuer of tokens may name users and groups of the system, such as system:masters; set a prefix, or a rule in userValidationRules", "issuer", jwt.Issuer.URL, "file", i.file)
		}
		tokens, checks, set.urls = append(tokens, one), append(checks, one.HealthCheck), append(set.urls, jwt.Issuer.URL)
	}
	set.Token = tokenunion.NewFailOnError(tokens...)
	if len(tokens) > 0 {
		// With the set goes what it remembers.
		set.Token = tokencache.New(set.Token, false, remembered, 0)
	}
	set.healthy = func() error {
		var errs []error
		for _, check := range checks {
			errs = append(errs, check())
		}
		return utilerrors.NewAggregate(errs)
	}
	return set, nil
}

// mayNameTheSystem says whether an issuer's own words become names of users or groups,
// and no rule looks at them.
func mayNameTheSystem(jwt apiserver.JWTAuthenticator) bool {
	if len(jwt.UserValidationRules) > 0 {
		return false
	}
	free := func(m apiserver.PrefixedClaimOrExpression) bool {
		return m.Expression != "" || m.Claim != "" && m.Prefix != nil && *m.Prefix == ""
	}
	return free(jwt.ClaimMappings.Username) || free(jwt.ClaimMappings.Groups)
}

// issuerClient asks an issuer for its keys. An answer has a bound.
func issuerClient(issuer apiserver.Issuer) (*http.Client, error) {
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	if issuer.CertificateAuthority != "" {
		roots, err := certutil.NewPoolFromBytes([]byte(issuer.CertificateAuthority))
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	return &http.Client{Transport: answerlimit.Transport{Next: transport, Who: "the issuer " + issuer.URL, Max: maxKeys, Redirects: true}, Timeout: 30 * time.Second}, nil
}

// follow takes up changes of the file until ctx ends.
func (i *issuers) follow(ctx context.Context) {
	metrics.RegisterMetrics()
	metrics.RecordAuthenticationConfigLastConfigInfo(i.serverID, string(i.read))
	var former sync.WaitGroup
	defer former.Wait()
	filesystem.WatchUntil(ctx, lookEvery, i.file, func() { i.look(ctx, &former) }, func(err error) {
		i.log.Warn("the authentication configuration cannot be watched; it is read each minute", "file", i.file, "error", err)
	})
}

// look reads the file, and puts it in force where it changed and its issuers answer.
func (i *issuers) look(ctx context.Context, former *sync.WaitGroup) {
	failed := func(err error) {
		i.log.Error("the authentication configuration was changed and cannot be used; the one before stays in force", "error", i.fault(err))
		metrics.RecordAuthenticationConfigAutomaticReloadFailure(i.serverID)
	}
	data, err := secretfile.ReadGuarded(i.file)
	if err != nil {
		failed(err)
		return
	}
	if bytes.Equal(data, i.read) {
		return
	}
	config, err := i.parse(data)
	if err == nil && !reflect.DeepEqual(config.Anonymous, i.anonymous) {
		err = fmt.Errorf("anonymous was changed, which takes a restart")
	}
	if err != nil {
		i.read = data // it is not looked at again
		failed(err)
		return
	}
	next, err := i.make(config)
	if err == nil {
		err = next.await(ctx)
	}
	if err != nil {
		failed(err) // it is tried again: the issuer may come
		return
	}
	i.read = data
	before := i.now.Swap(next)
	former.Go(func() { i.retire(ctx, before, next.urls) })
	i.log.Info("the authentication configuration was changed and is in force", "file", i.file, "issuers", next.urls)
	metrics.RecordAuthenticationConfigAutomaticReloadSuccess(i.serverID, string(data))
}

// await waits until all issuers have answered.
func (s *issuerSet) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, takeUp)
	defer cancel()
	var last error
	if err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		last = s.healthy()
		return last == nil, nil
	}); err != nil {
		s.end()
		return utilerrors.NewAggregate([]error{last, err})
	}
	return nil
}

// retire ends issuers of before, when no request is with them any more.
func (i *issuers) retire(ctx context.Context, before *issuerSet, now []string) {
	timer := time.NewTimer(takeUp)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	before.end()
	for _, url := range before.urls {
		if !slices.Contains(now, url) {
			oidc.DeleteJWKSFetchMetrics(url, i.serverID)
		}
	}
}
