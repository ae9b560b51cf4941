package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

const (
	minSeconds = 10 * 60
	maxSeconds = 1 << 32
	// defaultSeconds is what the API defaults spec.expirationSeconds to.
	defaultSeconds = 60 * 60
	// injectedSeconds is what the ServiceAccount admission asks for; such a
	// token lives on for extendedSeconds, and its use after the hour is marked
	// stale, since older clients do not read the file again.
	injectedSeconds = 60*60 + 7
	extendedSeconds = 365 * 24 * 60 * 60
)

var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// RESTConfig configures the serviceaccounts/token subresource.
type RESTConfig struct {
	Issuer *Issuer
	Getter Getter
	// Audiences of the API server, for requests that name none.
	Audiences []string
	// MaxExpiration shortens what is asked for; 0 for no limit, at least an
	// hour otherwise. As upstream's, it leaves alone the longer life of tokens
	// that admission injects, which end with their pod.
	MaxExpiration time.Duration
}

// REST serves serviceaccounts/token.
type REST struct {
	cfg  RESTConfig
	auds sets.Set[string]
}

var (
	_ rest.NamedCreater                   = (*REST)(nil)
	_ rest.GroupVersionKindProvider       = (*REST)(nil)
	_ rest.SubresourceObjectMetaPreserver = (*REST)(nil)
)

// NewREST checks the configuration.
func NewREST(cfg RESTConfig) (*REST, error) {
	if cfg.Issuer == nil || cfg.Getter == nil || len(cfg.Audiences) == 0 {
		return nil, errors.New("serviceaccounts/token: issuer, getter and audiences are required")
	}
	if cfg.MaxExpiration != 0 && (cfg.MaxExpiration < time.Hour || cfg.MaxExpiration > maxSeconds*time.Second) {
		return nil, fmt.Errorf("serviceaccounts/token: maximal expiration %s: want 1h to 2^32 seconds", cfg.MaxExpiration)
	}
	return &REST{cfg: cfg, auds: sets.New(cfg.Audiences...)}, nil
}

func (r *REST) New() runtime.Object { return &authenticationv1.TokenRequest{} }
func (r *REST) Destroy()            {}

// GroupVersionKind keeps the body in its own group: the parent is core/v1.
func (r *REST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind { return tokenRequestKind }

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps metadata.uid,
// which a client may set to say which service account it means.
func (r *REST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create issues a token for the service account called name.
func (r *REST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	req, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", obj))
	}
	namespace, ok := request.NamespaceFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("namespace is required")
	}
	metadata := field.NewPath("metadata")
	if req.Name != "" && req.Name != name {
		return nil, invalid(name, field.Invalid(metadata.Child("name"), req.Name, "must match the service account name if specified"))
	}
	if req.Namespace != "" && req.Namespace != namespace {
		return nil, invalid(name, field.Invalid(metadata.Child("namespace"), req.Namespace, "must match the service account namespace if specified"))
	}
	account, err := r.cfg.Getter.GetServiceAccount(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if req.UID != "" && req.UID != account.UID {
		return nil, conflict(tokenRequestKind, name, fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID, account.UID))
	}
	now := time.Now()
	req.Name, req.Namespace, req.UID = account.Name, account.Namespace, account.UID
	req.CreationTimestamp = metav1.NewTime(now)
	req.Status = authenticationv1.TokenRequestStatus{}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = r.cfg.Audiences
	}
	if req.Spec.ExpirationSeconds == nil {
		seconds := int64(defaultSeconds)
		req.Spec.ExpirationSeconds = &seconds
	}
	if errs := checkExpiration(*req.Spec.ExpirationSeconds); len(errs) > 0 {
		return nil, invalid("", errs...)
	}
	if validate != nil {
		if err := validate(ctx, req.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	bound, err := r.bind(ctx, namespace, name, req.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	seconds := *req.Spec.ExpirationSeconds
	if limit := int64(r.cfg.MaxExpiration / time.Second); limit > 0 && seconds > limit {
		warning.AddWarning(ctx, "", fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", seconds, limit))
		seconds = limit
		req.Spec.ExpirationSeconds = &seconds
	}
	issue := Request{
		ServiceAccount: account, Binding: bound, Audiences: req.Spec.Audiences,
		Expiration: time.Duration(seconds) * time.Second,
	}
	if bound.Pod != nil && seconds == injectedSeconds && r.auds.HasAll(req.Spec.Audiences...) {
		issue.WarnAfter = issue.Expiration
		issue.Expiration = extendedSeconds * time.Second
	}
	compact, id, err := r.cfg.Issuer.Issue(issue)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey, authenticationjwt.CredentialIDForJTI(id))
	out := req.DeepCopy()
	out.Status = authenticationv1.TokenRequestStatus{
		Token: compact,
		// Never later than the exp claim: the clock was read before signing.
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)),
	}
	return out, nil
}

// bind looks up the object the token's life is to hang on.
func (r *REST) bind(ctx context.Context, namespace, account string, ref *authenticationv1.BoundObjectReference) (Binding, error) {
	if ref == nil {
		return Binding{}, nil
	}
	var (
		bound Binding
		uid   types.UID
		err   error
		kind  = schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	)
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		if bound.Pod, err = r.cfg.Getter.GetPod(ctx, namespace, ref.Name); err != nil {
			return Binding{}, err
		}
		if bound.Pod.Spec.ServiceAccountName != account {
			return Binding{}, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account))
		}
		uid = bound.Pod.UID
		if node := bound.Pod.Spec.NodeName; node != "" {
			bound.Node, err = r.cfg.Getter.GetNode(ctx, node)
			switch {
			case apierrors.IsNotFound(err):
				bound.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			case err != nil:
				return Binding{}, apierrors.NewInternalError(err)
			}
		}
	case schema.GroupKind{Kind: "Node"}:
		if bound.Node, err = r.cfg.Getter.GetNode(ctx, ref.Name); err != nil {
			return Binding{}, err
		}
		uid = bound.Node.UID
	case schema.GroupKind{Kind: "Secret"}:
		if bound.Secret, err = r.cfg.Getter.GetSecret(ctx, namespace, ref.Name); err != nil {
			return Binding{}, err
		}
		uid = bound.Secret.UID
	default:
		return Binding{}, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", kind.String()))
	}
	if ref.UID != "" && ref.UID != uid {
		return Binding{}, conflict(kind, ref.Name, fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return bound, nil
}

func checkExpiration(seconds int64) field.ErrorList {
	path := field.NewPath("spec", "expirationSeconds")
	var errs field.ErrorList
	if seconds < minSeconds {
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration less than 10 minutes"))
	}
	if seconds > maxSeconds {
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	return errs
}

func invalid(name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(tokenRequestKind.GroupKind(), name, errs)
}

func conflict(kind schema.GroupVersionKind, name string, err error) error {
	return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, name, err)
}
