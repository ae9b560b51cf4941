package review

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

var ann = &user.DefaultInfo{Name: "ann", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}

func create(t *testing.T, storage rest.Storage, namespace string, obj runtime.Object) (runtime.Object, error) {
	t.Helper()
	ctx := request.WithNamespace(request.WithUser(t.Context(), ann), namespace)
	return storage.(rest.Creater).Create(ctx, obj, nil, nil)
}

func fails(t *testing.T, err error, want string) bool {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want %q", err, want)
	}
	return true
}

func TestTokenReview(t *testing.T) {
	requests := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		audiences, _ := authenticator.AudiencesFrom(r.Context())
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			return &authenticator.Response{User: ann, Audiences: audiences}, true, nil
		case "Bearer elsewhere":
			return &authenticator.Response{User: ann, Audiences: []string{"x"}}, true, nil
		}
		return nil, false, errors.New("invalid bearer token")
	})
	storage := Authentication(requests, []string{"api"})["tokenreviews"]
	for _, tt := range []struct {
		name, token, wantErr, status string
		audiences, want              []string
	}{
		{name: "good", token: "good", want: []string{"api"}},
		{name: "own audience", token: "good", audiences: []string{"vault"}, want: []string{"vault"}},
		{name: "bad", token: "bad", status: "invalid bearer token"},
		{name: "none", wantErr: "token is required for TokenReview in authentication"},
		{name: "authenticator without audience", token: "elsewhere", wantErr: "error validating audiences"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := create(t, storage, "", &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: tt.token, Audiences: tt.audiences}})
			if fails(t, err, tt.wantErr) {
				return
			}
			status := out.(*authenticationv1.TokenReview).Status
			if status.Error != tt.status || status.Authenticated != (tt.want != nil) || !slices.Equal(status.Audiences, tt.want) {
				t.Errorf("%+v", status)
			}
			if tt.want != nil && (status.User.Username != "ann" || status.User.Extra["k"][0] != "v") {
				t.Errorf("%+v", status.User)
			}
		})
	}
}

func TestSelfSubjectReview(t *testing.T) {
	out, err := create(t, Authentication(nil, nil)["selfsubjectreviews"], "", &authenticationv1.SelfSubjectReview{})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.(*authenticationv1.SelfSubjectReview).Status.UserInfo; got.Username != "ann" || got.UID != "1" || got.Groups[0] != "g" {
		t.Errorf("%+v", got)
	}
}

// judge allows ann to get pods and remembers the question.
type judge struct{ asked authorizer.Attributes }

func (j *judge) authorizer() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		j.asked = a
		if a.GetUser().GetName() == "ann" && a.GetVerb() == "get" {
			return authorizer.DecisionAllow, "because", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
}

func (j *judge) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, Resources: []string{"pods"}}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}}, false, errors.New("lost")
}

func TestAccessReviews(t *testing.T) {
	pods := &authorizationv1.ResourceAttributes{Namespace: "ns", Verb: "get", Resource: "pods"}
	path := &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "post"}
	sar := func(user string, r *authorizationv1.ResourceAttributes, p *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
		return authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: r, NonResourceAttributes: p}
	}
	labelled := pods.DeepCopy()
	labelled.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: "a in (", Requirements: nil}
	both := pods.DeepCopy()
	both.FieldSelector = &authorizationv1.FieldSelectorAttributes{}
	for _, tt := range []struct {
		name, resource, namespace string
		obj                       runtime.Object
		allowed                   bool
		evaluation, wantErr       string
	}{
		{name: "other may", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{Spec: sar("ann", pods, nil)}, allowed: true},
		{name: "other may not", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{Spec: sar("bob", nil, path)}},
		{name: "nobody", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{Spec: sar("", pods, nil)}, wantErr: "at least one of user or group must be specified"},
		{name: "nothing", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{Spec: sar("ann", nil, nil)}, wantErr: "exactly one of nonResourceAttributes or resourceAttributes must be specified"},
		{name: "two things", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{Spec: sar("ann", pods, path)}, wantErr: "cannot be specified in combination with resourceAttributes"},
		{name: "named", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: sar("ann", pods, nil)}, wantErr: "must be empty"},
		{name: "unreadable selector", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{Spec: sar("ann", labelled, nil)}, allowed: true, evaluation: "spec.resourceAttributes.labelSelector ignored due to parse error"},
		{name: "empty selector", resource: "subjectaccessreviews", obj: &authorizationv1.SubjectAccessReview{Spec: sar("ann", both, nil)}, wantErr: "requirements or rawSelector is required"},
		{name: "local", resource: "localsubjectaccessreviews", namespace: "ns", obj: &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: sar("ann", pods, nil)}, allowed: true},
		{name: "local of another namespace", resource: "localsubjectaccessreviews", namespace: "x", obj: &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "x"}, Spec: sar("ann", pods, nil)}, wantErr: "must match metadata.namespace"},
		{name: "local path", resource: "localsubjectaccessreviews", namespace: "ns", obj: &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: sar("ann", nil, path)}, wantErr: "disallowed on this kind of request"},
		{name: "self", resource: "selfsubjectaccessreviews", obj: &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: pods}}, allowed: true},
		{name: "self may not", resource: "selfsubjectaccessreviews", obj: &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: path}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var j judge
			out, err := create(t, Authorization(j.authorizer(), &j)[tt.resource], tt.namespace, tt.obj)
			if fails(t, err, tt.wantErr) {
				return
			}
			var status authorizationv1.SubjectAccessReviewStatus
			switch o := out.(type) {
			case *authorizationv1.SubjectAccessReview:
				status = o.Status
			case *authorizationv1.LocalSubjectAccessReview:
				status = o.Status
			case *authorizationv1.SelfSubjectAccessReview:
				status = o.Status
			}
			if status.Allowed != tt.allowed || status.Denied || status.EvaluationError != tt.evaluation || status.Allowed && status.Reason != "because" {
				t.Errorf("%+v", status)
			}
			if j.asked.IsResourceRequest() && j.asked.GetAPIVersion() != "*" {
				t.Errorf("asked about version %q", j.asked.GetAPIVersion())
			}
		})
	}
}

func TestSelfSubjectRulesReview(t *testing.T) {
	storage := Authorization(nil, &judge{})["selfsubjectrulesreviews"]
	_, err := create(t, storage, "", &authorizationv1.SelfSubjectRulesReview{})
	fails(t, err, "no namespace on request")
	out, err := create(t, storage, "", &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "ns"}})
	if err != nil {
		t.Fatal(err)
	}
	status := out.(*authorizationv1.SelfSubjectRulesReview).Status
	if len(status.ResourceRules) != 1 || len(status.NonResourceRules) != 1 || status.EvaluationError != "lost" || status.Incomplete {
		t.Errorf("%+v", status)
	}
}
