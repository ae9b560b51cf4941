package api_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
)

// A Secret of the type gets a token, which is good while the Secret holds it and its
// service account lives.
func TestTokenSecrets(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s).CoreV1()
	secrets := c.Secrets("default")
	account := func(name string) *corev1.ServiceAccount {
		t.Helper()
		out, err := c.ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	create := func(name, of string) {
		t.Helper()
		if _, err := secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: of}}, Type: corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	filled := func(name string) (out *corev1.Secret) {
		t.Helper()
		waitFor(t, func() bool {
			var err error
			out, err = secrets.Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && len(out.Data[corev1.ServiceAccountTokenKey]) > 0
		})
		return out
	}
	gone := func(name string) {
		t.Helper()
		waitFor(t, func() bool {
			_, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	robot := account("robot")
	create("robot-token", "robot")
	secret := filled("robot-token")
	token := string(secret.Data["token"])
	if string(secret.Data["namespace"]) != "default" || string(secret.Data["ca.crt"]) != string(s.PKI().CAPEM()) || secret.Annotations[corev1.ServiceAccountUIDKey] != string(robot.UID) {
		t.Errorf("%v %s", secret.Annotations, secret.Data)
	}
	var claims map[string]any
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims["iss"] != "kubernetes/serviceaccount" || claims["exp"] != nil ||
		claims["kubernetes.io/serviceaccount/secret.name"] != "robot-token" || claims["sub"] != "system:serviceaccount:default:robot" {
		t.Errorf("claims %v, %v", claims, err)
	}
	if who, err := whoIs(t, s, token); err != nil || who.Username != "system:serviceaccount:default:robot" || !slices.Contains(who.Groups, "system:serviceaccounts:default") {
		t.Errorf("%+v, %v", who, err)
	}
	// Its use is noted in its Secret, by the day.
	waitFor(t, func() bool {
		now, err := secrets.Get(t.Context(), "robot-token", metav1.GetOptions{})
		return err == nil && slices.Contains([]string{time.Now().UTC().Format("2006-01-02"), time.Now().UTC().AddDate(0, 0, -1).Format("2006-01-02")}, now.Labels["kubernetes.io/legacy-token-last-used"])
	})
	refused := func(what, token string, fault string) {
		t.Helper()
		if who, err := whoIs(t, s, token); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
		review, err := overTLS(t, s).AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil || review.Status.Authenticated || !strings.Contains(review.Status.Error, fault) {
			t.Errorf("%s: %+v, %v", what, review, err)
		}
	}
	parts := strings.Split(token, ".")
	claims["kubernetes.io/serviceaccount/service-account.name"], claims["sub"] = "default", "system:serviceaccount:default:default"
	forged, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	refused("a forged payload", parts[0]+"."+base64.RawURLEncoding.EncodeToString(forged)+"."+parts[2], "")
	refused("no signature", base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))+"."+parts[1]+".", "")
	// It is for the API server alone.
	review, err := overTLS(t, s).AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{"vault"}}}, metav1.CreateOptions{})
	if err != nil || review.Status.Authenticated {
		t.Errorf("for others: %+v, %v", review, err)
	}
	patch := func(of, what string) {
		t.Helper()
		if _, err := secrets.Patch(t.Context(), of, types.MergePatchType, []byte(what), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch("robot-token", `{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2026-01-01"}}}`)
	refused("marked invalid", token, "has been marked invalid")
	patch("robot-token", `{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":null}}}`)
	// Who takes the token out gets another; both are signed alike, and the former is in no Secret.
	patch("robot-token", `{"data":{"token":null,"ca.crt":null}}`)
	again := filled("robot-token")
	if string(again.Data["ca.crt"]) != string(s.PKI().CAPEM()) {
		t.Error("the authority is not back")
	}
	if string(again.Data["token"]) != token {
		refused("taken out", token, "does not match server's copy")
	}
	token = string(again.Data["token"])
	// A copy in another Secret is none.
	account("thief")
	create("thief-token", "thief")
	filled("thief-token")
	patch("thief-token", `{"data":{"token":"`+base64.StdEncoding.EncodeToString([]byte(token))+`"}}`)
	if err := secrets.Delete(t.Context(), "robot-token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("its Secret is gone, and its copy is not", token, "invalidated")
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "robot-token"}, StringData: map[string]string{"token": token}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("in a Secret of another type", token, "invalidated")
	// Without their service account Secrets go, and those of one that is not there.
	create("second", "robot")
	second := string(filled("second").Data["token"])
	if err := c.ServiceAccounts("default").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone("second")
	refused("its account is gone", second, "")
	create("nobody", "absent")
	gone("nobody")
	// A Secret that goes is taken out of its account's list.
	if _, err := c.ServiceAccounts("default").Patch(t.Context(), "thief", types.MergePatchType, []byte(`{"secrets":[{"name":"thief-token"},{"name":"other"}]}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), "thief-token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		now, err := c.ServiceAccounts("default").Get(t.Context(), "thief", metav1.GetOptions{})
		return err == nil && len(now.Secrets) == 1 && now.Secrets[0].Name == "other"
	})
}

// whoIs asks the server who a token's owner is.
func whoIs(t *testing.T, s *api.Server, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL(), BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.PKI().CAPEM()}})
	if err != nil {
		t.Fatal(err)
	}
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// The token of a Secret that a service account's list names is told to be replaced.
func TestListedTokenSecret(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s).CoreV1()
	if _, err := c.Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "listed", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ServiceAccounts("default").Patch(t.Context(), "default", types.MergePatchType, []byte(`{"secrets":[{"name":"listed"}]}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	var token string
	waitFor(t, func() bool {
		out, err := c.Secrets("default").Get(t.Context(), "listed", metav1.GetOptions{})
		token = string(out.Data["token"])
		return err == nil && token != ""
	})
	told := &warnings{}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL(), BearerToken: token, WarningHandler: told, TLSClientConfig: rest.TLSClientConfig{CAData: s.PKI().CAPEM()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(told.all(), func(w string) bool { return strings.Contains(w, "instead of auto-generated secret-based tokens") }) {
		t.Errorf("warnings: %v", told.all())
	}
}

// TestTokenTracking: the ConfigMap is there, and comes back right when it is spoilt.
func TestTokenTracking(t *testing.T) {
	s := start(t, t.TempDir())
	maps := overTLS(t, s).CoreV1().ConfigMaps(metav1.NamespaceSystem)
	const name = "kube-apiserver-legacy-service-account-token-tracking"
	dated := func() (cm *corev1.ConfigMap) {
		t.Helper()
		waitFor(t, func() bool {
			var err error
			if cm, err = maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				return false
			}
			_, err = time.Parse(time.DateOnly, cm.Data["since"])
			return err == nil
		})
		return cm
	}
	cm := dated()
	cm.Data["since"] = "for ever"
	if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	dated()
}
