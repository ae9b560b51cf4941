package api_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
)

// account makes a service account without rights, and gives its token.
func account(t *testing.T, s *api.Server, name string) string {
	t.Helper()
	c := overTLS(t, s).CoreV1().ServiceAccounts("default")
	if _, err := c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := c.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// give binds an account to a cluster role in its namespace.
func give(t *testing.T, c kubernetes.Interface, name, role string) {
	t.Helper()
	if _, err := c.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bearer is a client on the network with a token.
func bearer(t *testing.T, s *api.Server, token string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL(), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.PKI().CAPEM()}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// trickle begins a request over HTTP/1 whose body does not come.
func trickle(t *testing.T, s *api.Server, token string) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.PKI().CAPEM())
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", reviewPath, token); err != nil {
		t.Fatal(err)
	}
}

// bodiesHeld is how many bodies of trickle the server holds room for.
func bodiesHeld(t *testing.T, c kubernetes.Interface) int {
	t.Helper()
	metrics, err := c.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(metrics), "\npintle_api_request_body_bytes ")
	value, _, _ = strings.Cut(value, "\n")
	bytes, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(bytes) / 1000
}

// H3: bodies that trickle in take no seat, whoever shares them out.
func TestSlowBodiesTakeNoSeat(t *testing.T) {
	for _, fair := range []bool{true, false} {
		t.Run(fmt.Sprintf("fairness %v", fair), func(t *testing.T) {
			s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
				c.NoPriorityAndFairness = !fair
				c.MaxInFlight, c.MaxMutatingInFlight = 8, 8
			})
			slow, other := account(t, s, "slow"), account(t, s, "other")
			admin := overTLS(t, s)
			for range 40 {
				trickle(t, s, slow)
			}
			// The server gives a slow body up after some seconds: where 40 take longer to
			// begin, others follow.
			waitFor(t, func() bool {
				held := bodiesHeld(t, admin)
				if held < 40 {
					trickle(t, s, slow)
				}
				return held >= 40
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+reviewPath, strings.NewReader(
				`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			client, err := rest.HTTPClientFor(&rest.Config{BearerToken: other, TLSClientConfig: rest.TLSClientConfig{CAData: s.PKI().CAPEM()}})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if data, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusCreated {
				t.Errorf("another account, beside 40 bodies that trickle in: %s %s", answer.Status, data)
			}
		})
	}
}

// One account's watches and connections end where its limit is; another's do not.
func TestLimitsOfAClient(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
		c.Limits = api.Limits{Watches: 100, WatchesPerUser: 3, Connections: 100, ConnectionsPerUser: 2, ConnectionsPerSource: 100}
	})
	admin := overTLS(t, s)
	token := account(t, s, "greedy")
	give(t, admin, "greedy", "view")
	c := bearer(t, s, token)
	watch := func(c kubernetes.Interface) error {
		w, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err == nil {
			t.Cleanup(w.Stop)
		}
		return err
	}
	waitFor(t, func() bool {
		_, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	for i := range 3 {
		if err := watch(c); err != nil {
			t.Fatalf("watch %d: %v", i, err)
		}
	}
	status := func(token string) (int, string) {
		client, err := rest.HTTPClientFor(&rest.Config{Host: s.URL(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: s.PKI().CAPEM()},
			Dial: new(net.Dialer).DialContext})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/api/v1/namespaces/default/configmaps?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if res.StatusCode == http.StatusOK {
			return res.StatusCode, ""
		}
		data, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(data) + res.Header.Get("Retry-After")
	}
	// The second connection is one more than the watches allow, the third than the connections.
	if code, text := status(token); code != http.StatusTooManyRequests || !strings.Contains(text, "has 3 watches and streams open") || !strings.HasSuffix(text, "1") {
		t.Errorf("the fourth watch: %d %s", code, text)
	}
	if code, text := status(token); code != http.StatusTooManyRequests || !strings.Contains(text, "has 2 connections open") {
		t.Errorf("the third connection: %d %s", code, text)
	}
	other := account(t, s, "other")
	give(t, admin, "other", "view")
	// One connection asks until the role is in force: each call of status is another one.
	theirs := bearer(t, s, other)
	waitFor(t, func() bool {
		_, err := theirs.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	if code, text := status(other); code != http.StatusOK {
		t.Errorf("another account: %d %s", code, text)
	}
	for range 5 {
		if err := watch(asSuperAdmin(t, s)); err != nil {
			t.Errorf("system:masters: %v", err)
		}
	}
}
