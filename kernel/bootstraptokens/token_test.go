package bootstraptokens

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/cluster-bootstrap/token/jws"
	"k8s.io/utils/ptr"
)

const secret = "0123456789abcdef"

// A token becomes the Secret that kubeadm makes, and is read back; what is none is refused.
func TestTokens(t *testing.T) {
	client := fake.NewClientset()
	ends := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	for name, tc := range map[string]struct {
		token Token
		want  map[string]string
		fault string
	}{
		"whole": {Token{ID: "aaaaaa", Secret: secret, Description: "for the rack", Expires: ends, Usages: []string{"authentication", "signing"}, Groups: []string{NodeGroup, "system:bootstrappers:x"}},
			map[string]string{
				"token-id": "aaaaaa", "token-secret": secret, "description": "for the rack", "expiration": ends.Format(time.RFC3339),
				"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "auth-extra-groups": NodeGroup + ",system:bootstrappers:x",
			}, ""},
		"least":            {Token{ID: "bbbbbb", Secret: secret, Usages: []string{"signing"}}, map[string]string{"token-id": "bbbbbb", "token-secret": secret, "usage-bootstrap-signing": "true"}, ""},
		"without a usage":  {Token{ID: "cccccc", Secret: secret}, nil, "has no usage"},
		"of another usage": {Token{ID: "cccccc", Secret: secret, Usages: []string{"signing", "flying"}}, nil, "invalid bootstrap token usage string: flying"},
		"of nodes":         {Token{ID: "cccccc", Secret: secret, Usages: []string{"authentication"}, Groups: []string{"system:nodes"}}, nil, `bootstrap group "system:nodes" is invalid`},
		"of masters":       {Token{ID: "cccccc", Secret: secret, Usages: []string{"authentication"}, Groups: []string{"system:bootstrappers:x\nsystem:masters"}}, nil, "is invalid"},
		"groups of no use": {Token{ID: "cccccc", Secret: secret, Usages: []string{"signing"}, Groups: []string{NodeGroup}}, nil, "groups are for tokens of usage authentication"},
	} {
		err := Create(t.Context(), client, tc.token)
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v, want %q", name, err, tc.fault)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := client.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+tc.token.ID, metav1.GetOptions{})
		if err != nil || s.Type != "bootstrap.kubernetes.io/token" || len(s.Data) != len(tc.want) {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		for k, v := range tc.want {
			if string(s.Data[k]) != v {
				t.Errorf("%s: %s is %q, want %q", name, k, s.Data[k], v)
			}
		}
	}
	if err := Create(t.Context(), client, Token{ID: "aaaaaa", Secret: secret, Usages: []string{"signing"}}); err == nil || err.Error() != `a token with id "aaaaaa" already exists` {
		t.Errorf("twice: %v", err)
	}
	for name, data := range map[string]map[string]string{
		"bootstrap-token-dddddd": {"token-id": "eeeeee", "token-secret": secret},
		"bootstrap-token-ffffff": {"token-id": "ffffff", "token-secret": "short"},
		"bootstrap-token-gggggg": {"token-id": "gggggg", "token-secret": secret, "expiration": "tomorrow"},
		"other":                  {"token-id": "hhhhhh", "token-secret": secret},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{}}
		for k, v := range data {
			s.Data[k] = []byte(v)
		}
		if err := client.Tracker().Add(s); err != nil {
			t.Fatal(err)
		}
	}
	all, faults := List(t.Context(), client)
	if len(all) != 2 || all[0].String() != "aaaaaa."+secret || !all[0].Expires.Equal(ends) || !slices.Equal(all[0].Usages, []string{"authentication", "signing"}) || len(all[0].Groups) != 2 || !all[1].Expires.IsZero() {
		t.Errorf("%+v", all)
	}
	for _, name := range []string{"dddddd", "ffffff", "gggggg", "other"} {
		if faults == nil || !strings.Contains(faults.Error(), name) {
			t.Errorf("%s is not told: %v", name, faults)
		}
	}
	for text, want := range map[string]string{"aaaaaa": "aaaaaa", "bbbbbb." + secret: "bbbbbb"} {
		if id, err := Delete(t.Context(), client, text); err != nil || id != want {
			t.Errorf("delete %s: %q, %v", text, id, err)
		}
	}
	for text, want := range map[string]string{"aaaaaa": "not found", "../../secret": "didn't match pattern", "AAAAAA": "didn't match pattern", "": "didn't match pattern"} {
		if _, err := Delete(t.Context(), client, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("delete %q: %v", text, err)
		}
	}
	a, err1 := Generate()
	b, err2 := Generate()
	if err1 != nil || err2 != nil || a.String() == b.String() {
		t.Errorf("%v, %v, %v, %v", a, b, err1, err2)
	}
}

// What joining needs is made once, gives no more than that, and is not written over.
func TestPrepare(t *testing.T) {
	client := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "old", "jws-kubeconfig-aaaaaa": "x", "other": "kept"},
	}, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:node-autoapprove-bootstrap"}})
	for range 2 {
		if err := Prepare(t.Context(), client, "https://192.0.2.10:6443", []byte("PEM")); err != nil {
			t.Fatal(err)
		}
	}
	info, err := client.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
	if err != nil || info.Data["other"] != "kept" || !strings.Contains(info.Data["kubeconfig"], "server: https://192.0.2.10:6443") || strings.Contains(info.Data["kubeconfig"], "user:") {
		t.Errorf("%+v, %v", info, err)
	}
	bindings, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, b := range bindings.Items {
		for _, s := range b.Subjects {
			got[b.Name] = b.RoleRef.Name + " to " + s.Kind + " " + s.Name
		}
	}
	want := map[string]string{
		"kubeadm:kubelet-bootstrap":                     "system:node-bootstrapper to Group " + NodeGroup,
		"kubeadm:get-nodes":                             "kubeadm:get-nodes to Group " + NodeGroup,
		"kubeadm:node-autoapprove-certificate-rotation": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient to Group system:nodes",
		"pintle:node-proxier":                           "pintle:node-proxier to Group system:nodes",
		"pintle:node-network":                           "pintle:node-network to Group system:nodes",
		"pintle:node-dns":                               "pintle:node-dns to Group system:nodes",
		"pintle:node-network-policy":                    "pintle:node-network-policy to Group system:nodes",
		"pintle:node-announcer":                         "pintle:node-announcer to Group system:nodes",
	}
	if len(got) != len(want) || len(bindings.Items) != len(want)+1 {
		t.Errorf("bindings %v", got)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %q, want %q", name, got[name], text)
		}
	}
	roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(roles.Items) != 6 {
		t.Errorf("%+v, %v", roles, err)
	}
	may := map[string]string{
		"kubeadm:get-nodes": "[get] [nodes]", "pintle:node-proxier": "[list watch] [endpointslices]", "pintle:node-network": "[list watch] [nodes]",
		"pintle:node-dns": "[list watch] [namespaces]", "pintle:node-network-policy": "[list watch] [namespaces pods] [list watch] [networkpolicies]",
		"pintle:node-announcer": "[list watch] [nodes] [list watch] [endpointslices]",
	}
	for _, r := range roles.Items {
		text := ""
		for _, rule := range r.Rules {
			text += fmt.Sprint(" ", rule.Verbs, " ", rule.Resources)
		}
		if strings.TrimSpace(text) != may[r.Name] {
			t.Errorf("%s may %s, want %s", r.Name, text, may[r.Name])
		}
	}
	role, err := client.RbacV1().Roles("kube-public").Get(t.Context(), "kubeadm:bootstrap-signer-clusterinfo", metav1.GetOptions{})
	if err != nil || len(role.Rules) != 1 || !slices.Equal(role.Rules[0].ResourceNames, []string{"cluster-info"}) || !slices.Equal(role.Rules[0].Verbs, []string{"get"}) {
		t.Errorf("%+v, %v", role, err)
	}
}

// Nodes read two ConfigMaps of kube-system, and no other.
func TestPrepareForNodes(t *testing.T) {
	client := fake.NewClientset()
	if err := Prepare(t.Context(), client, "https://192.0.2.10:6443", []byte("PEM")); err != nil {
		t.Fatal(err)
	}
	roles, err := client.RbacV1().Roles("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(roles.Items) != 1 || len(roles.Items[0].Rules) != 1 {
		t.Fatalf("%+v, %v", roles, err)
	}
	rule := roles.Items[0].Rules[0]
	if !slices.Equal(rule.Resources, []string{"configmaps"}) || !slices.Equal(rule.ResourceNames, []string{"pintle-revoked-certificates"}) || !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
		t.Errorf("nodes may %+v", rule)
	}
	bindings, err := client.RbacV1().RoleBindings("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range bindings.Items {
		for _, s := range b.Subjects {
			got = append(got, b.RoleRef.Kind+" "+b.RoleRef.Name+" to "+s.Kind+" "+s.Name)
		}
	}
	slices.Sort(got)
	if want := []string{"Role extension-apiserver-authentication-reader to Group system:nodes", "Role pintle:node-revocations to Group system:nodes"}; !slices.Equal(got, want) {
		t.Errorf("bound are %q", got)
	}
}

// A conflict is tried again, and does not lose what others wrote.
func TestInfoConflict(t *testing.T) {
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}})
	times := 0
	client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		times++
		return times < 3, nil, apierrors.NewConflict(corev1.Resource("configmaps"), "cluster-info", nil)
	})
	if err := writeInfo(t.Context(), client, "new"); err != nil || times != 3 {
		t.Errorf("%v after %d tries", err, times)
	}
	times = -100
	if err := writeInfo(t.Context(), client, "newer"); err == nil || times > -90 {
		t.Errorf("%v after %d tries", err, times+100)
	}
}

func TestServer(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{"kubernetes.io/service-name": "kubernetes"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"2001:db8::1"}}}, Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(6443))}},
	}
	if got, err := Server(t.Context(), fake.NewClientset(slice)); err != nil || got != "https://[2001:db8::1]:6443" {
		t.Errorf("%q, %v", got, err)
	}
	slice.Endpoints = nil
	if _, err := Server(t.Context(), fake.NewClientset(slice)); err == nil || !strings.Contains(err.Error(), "has no endpoint") {
		t.Error(err)
	}
}

// A new token is waited for, and what is missing is named.
func TestAwait(t *testing.T) {
	token := Token{ID: "aaaaaa", Secret: secret, Usages: []string{"authentication", "signing"}}
	for name, tc := range map[string]struct {
		authenticated, signed bool
		want                  string
	}{
		"works":      {true, true, ""},
		"not let in": {false, true, "set auth.bootstrapTokens"},
		"not signed": {true, false, "enable the controller bootstrapsigner"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "x"}}
				client := fake.NewClientset(info)
				client.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: tc.authenticated}}, nil
				})
				if tc.signed {
					time.AfterFunc(5*time.Second, func() {
						signature, err := jws.ComputeDetachedSignature("x", token.ID, token.Secret)
						if err == nil {
							info.Data["jws-kubeconfig-aaaaaa"] = signature
							_, err = client.CoreV1().ConfigMaps("kube-public").Update(context.Background(), info, metav1.UpdateOptions{})
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				err := Await(ctx, client, token)
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
			})
		})
	}
}
