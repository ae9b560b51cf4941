package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Storage is what each review implements.
type Storage interface {
	rest.Storage
	rest.Scoper
	rest.Creater
	rest.SingularNameProvider
}

// Authentication returns the storages of authentication.k8s.io/v1 by resource.
// audiences are the API server's own.
func Authentication(requests authenticator.Request, audiences []string) map[string]rest.Storage {
	return map[string]rest.Storage{
		"tokenreviews": &tokenReview{
			virtual:  virtual{singular: "tokenreview", object: func() runtime.Object { return &authenticationv1.TokenReview{} }},
			requests: requests, audiences: audiences,
		},
		"selfsubjectreviews": &selfSubjectReview{
			virtual: virtual{singular: "selfsubjectreview", object: func() runtime.Object { return &authenticationv1.SelfSubjectReview{} }},
		},
	}
}

var (
	_ Storage = (*tokenReview)(nil)
	_ Storage = (*selfSubjectReview)(nil)
)

type tokenReview struct {
	virtual
	requests  authenticator.Request
	audiences []string
}

func (r *tokenReview) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, err := as[*authenticationv1.TokenReview](obj)
	if err != nil {
		return nil, err
	}
	if namespace := request.NamespaceValue(ctx); namespace != "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("namespace is not allowed on this type: %v", namespace))
	}
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if err := admit(ctx, review, validate); err != nil {
		return nil, err
	}
	audiences := authenticator.Audiences(review.Spec.Audiences)
	if len(audiences) == 0 {
		audiences = r.audiences
	}
	// A request that holds the token and nothing of the caller's.
	probe := &http.Request{Header: http.Header{"Authorization": []string{"Bearer " + review.Spec.Token}}}
	probeContext := context.Background()
	if len(audiences) > 0 {
		probeContext = authenticator.WithAudiences(probeContext, audiences)
	}
	response, authenticated, err := r.requests.AuthenticateRequest(probe.WithContext(probeContext))
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: authenticated}
	if err != nil {
		review.Status.Error = err.Error()
	}
	if response == nil || response.User == nil {
		return review, nil
	}
	if len(audiences) > 0 && len(audiences.Intersect(response.Audiences)) == 0 {
		return nil, apierrors.NewInternalError(errors.New("error validating audiences"))
	}
	review.Status.User = userInfo(response.User)
	review.Status.Audiences = response.Audiences
	return review, nil
}

type selfSubjectReview struct{ virtual }

func (r *selfSubjectReview) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	if err := admit(ctx, obj, validate); err != nil {
		return nil, err
	}
	if _, err := as[*authenticationv1.SelfSubjectReview](obj); err != nil {
		return nil, err
	}
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(who)},
	}, nil
}

func userInfo(who user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{
		Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(),
		Extra: make(map[string]authenticationv1.ExtraValue, len(who.GetExtra())),
	}
	for key, values := range who.GetExtra() {
		info.Extra[key] = values
	}
	return info
}
