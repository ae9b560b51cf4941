package bootstraptokens

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"pintle.dev/pintle/kernel/revocation/published"
)

// The objects that joining needs, by kubeadm's names. Those of pintle are our own: kubeadm has
// kube-proxy run as pods with an account of its own, and gives its kubelets the authority as a
// file.
const (
	signerRole      = "kubeadm:bootstrap-signer-clusterinfo"
	bootstrapRole   = "kubeadm:kubelet-bootstrap"
	getNodesRole    = "kubeadm:get-nodes"
	approveRole     = "kubeadm:node-autoapprove-bootstrap"
	renewRole       = "kubeadm:node-autoapprove-certificate-rotation"
	nodeProxierRole = "pintle:node-proxier"
	revokedRole     = "pintle:node-revocations"
	clientsBinding  = "pintle:node-authentication"
	// Those of plugins of a machine's node, one for each key of the configuration.
	nodeNetworkRole  = "pintle:node-network"
	nodeDNSRole      = "pintle:node-dns"
	nodePoliciesRole = "pintle:node-network-policy"
	nodeAnnounceRole = "pintle:node-announcer"
)

// Server is the address at which other machines reach the API server, a URL: that of the
// endpoints of the service default/kubernetes.
func Server(ctx context.Context, client kubernetes.Interface) (string, error) {
	list, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return "", fmt.Errorf("address of the API server: endpoints of service default/kubernetes: %w", err)
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			for _, p := range slice.Ports {
				if len(e.Addresses) > 0 && p.Port != nil {
					return "https://" + net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))), nil
				}
			}
		}
	}
	return "", errors.New("address of the API server: service default/kubernetes has no endpoint")
}

// Prepare writes what machines need that join: where the API server is and by what it is
// known, and the rights of tokens and nodes. ca is PEM.
func Prepare(ctx context.Context, client kubernetes.Interface, server string, ca []byte) error {
	content, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: server, CertificateAuthorityData: ca}}})
	if err != nil {
		return fmt.Errorf("cluster-info: %w", err)
	}
	if err := writeInfo(ctx, client, string(content)); err != nil {
		return err
	}
	rbac := client.RbacV1()
	var faults []error
	made := func(what string, err error) {
		if err != nil && !apierrors.IsAlreadyExists(err) {
			faults = append(faults, fmt.Errorf("create %s: %w", what, err))
		}
	}
	_, err = rbac.Roles(metav1.NamespacePublic).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: signerRole},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{bootstrapapi.ConfigMapClusterInfo},
		}},
	}, metav1.CreateOptions{})
	made("role "+signerRole, err)
	_, err = rbac.RoleBindings(metav1.NamespacePublic).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: signerRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: signerRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}},
	}, metav1.CreateOptions{})
	made("role binding "+signerRole, err)
	_, err = rbac.Roles(metav1.NamespaceSystem).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: revokedRole},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{published.Name},
		}},
	}, metav1.CreateOptions{})
	made("role "+revokedRole, err)
	for name, role := range map[string]string{
		revokedRole: revokedRole,
		// Which authorities know clients of the cluster; the role is the API server's own.
		clientsBinding: "extension-apiserver-authentication-reader",
	} {
		_, err = rbac.RoleBindings(metav1.NamespaceSystem).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
		}, metav1.CreateOptions{})
		made("role binding "+name, err)
	}
	reading := []string{"list", "watch"}
	for name, rules := range map[string][]rbacv1.PolicyRule{
		getNodesRole: {{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
		// A node's service proxy has the node's identity, which may read services by itself.
		nodeProxierRole: {{Verbs: reading, APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}}},
		// So have its plugins, of which each is held to the rules of its manifest besides.
		nodeNetworkRole: {{Verbs: reading, APIGroups: []string{""}, Resources: []string{"nodes"}}},
		nodeDNSRole:     {{Verbs: reading, APIGroups: []string{""}, Resources: []string{"namespaces"}}},
		nodeAnnounceRole: {
			{Verbs: reading, APIGroups: []string{""}, Resources: []string{"nodes"}},
			{Verbs: reading, APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}},
		},
		nodePoliciesRole: {
			{Verbs: reading, APIGroups: []string{""}, Resources: []string{"namespaces", "pods"}},
			{Verbs: reading, APIGroups: []string{networkingv1.GroupName}, Resources: []string{"networkpolicies"}},
		},
	} {
		_, err = rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
		made("cluster role "+name, err)
	}
	for name, b := range map[string]struct{ role, group string }{
		bootstrapRole:   {"system:node-bootstrapper", NodeGroup},
		getNodesRole:    {getNodesRole, NodeGroup},
		approveRole:     {"system:certificates.k8s.io:certificatesigningrequests:nodeclient", NodeGroup},
		renewRole:       {"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
		nodeProxierRole: {nodeProxierRole, "system:nodes"},

		nodeNetworkRole:  {nodeNetworkRole, "system:nodes"},
		nodeDNSRole:      {nodeDNSRole, "system:nodes"},
		nodePoliciesRole: {nodePoliciesRole, "system:nodes"},
		nodeAnnounceRole: {nodeAnnounceRole, "system:nodes"},
	} {
		_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.group}},
		}, metav1.CreateOptions{})
		made("cluster role binding "+name, err)
	}
	return errors.Join(faults...)
}

// writeInfo makes the content of the ConfigMap what it should be; signatures in it are the
// controller's.
func writeInfo(ctx context.Context, client kubernetes.Interface, content string) error {
	const name = bootstrapapi.ConfigMapClusterInfo
	maps := client.CoreV1().ConfigMaps(metav1.NamespacePublic)
	_, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: name}, Data: map[string]string{bootstrapapi.KubeConfigKey: content},
	}, metav1.CreateOptions{})
	for try := 0; apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err); try++ {
		have, e := maps.Get(ctx, name, metav1.GetOptions{})
		if e != nil {
			err = e
			break
		}
		if have.Data[bootstrapapi.KubeConfigKey] == content {
			return nil
		}
		have = have.DeepCopy()
		if have.Data == nil {
			have.Data = map[string]string{}
		}
		have.Data[bootstrapapi.KubeConfigKey] = content
		if _, err = maps.Update(ctx, have, metav1.UpdateOptions{}); try == 5 {
			break // others write all the time
		}
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", metav1.NamespacePublic, name, err)
	}
	return nil
}

// lookEach is how often Await looks.
const lookEach = 200 * time.Millisecond

// Await waits until a token does what it is for: the API server lets it in, and cluster-info
// is signed by it. The error, when ctx ends before, says what is missing.
func Await(ctx context.Context, client kubernetes.Interface, t Token) error {
	for {
		err := works(ctx, client, t)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(lookEach):
		case <-ctx.Done():
			return err
		}
	}
}

func works(ctx context.Context, client kubernetes.Interface, t Token) error {
	for _, usage := range t.Usages {
		switch usage {
		case "authentication":
			review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: t.String()}}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask whether token %s is let in: %w", t.ID, err)
			}
			if !review.Status.Authenticated {
				return fmt.Errorf("token %s is there, and the API server does not let it in; set auth.bootstrapTokens to true", t.ID)
			}
		case "signing":
			info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("look for the signature of token %s: %w", t.ID, err)
			}
			if !jws.DetachedTokenIsValid(info.Data[bootstrapapi.JWSSignatureKeyPrefix+t.ID], info.Data[bootstrapapi.KubeConfigKey], t.ID, t.Secret) {
				return fmt.Errorf("token %s is there, and ConfigMap %s/%s is not signed by it; enable the controller bootstrapsigner", t.ID, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo)
			}
		}
	}
	return nil
}
