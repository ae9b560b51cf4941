package certificates

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"pintle.dev/pintle/kernel/api/resources/certificates"
)

// resource is the one that the plugins look at.
const resource = "certificatesigningrequests"

func concerns(a admission.Attributes, subresource string) bool {
	return a.GetSubresource() == subresource && a.GetResource().GroupResource() == certificatesv1.Resource(resource)
}

func request(a admission.Attributes, obj any) (*certificatesv1.CertificateSigningRequest, error) {
	o, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil, admission.NewForbidden(a, fmt.Errorf("expected type CertificateSigningRequest, got: %T", obj))
	}
	return o, nil
}

// mayFor says whether a user has the verb for a signer, or for its whole domain.
// Without an authorizer no user has it.
func mayFor(ctx context.Context, authz authorizer.Authorizer, who user.Info, verb, signer string) bool {
	if authz == nil {
		return false
	}
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := authz.Authorize(ctx, authorizer.AttributesRecord{
			User: who, Verb: verb, APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", Name: name, ResourceRequest: true,
		})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

// Approval asks who approves for the right to.
type Approval struct {
	*admission.Handler
	authz authorizer.Authorizer
}

// Signing asks who signs, or says why not, for the right to.
type Signing struct {
	*admission.Handler
	authz authorizer.Authorizer
}

// SubjectRestriction refuses requests for the group that may do everything.
type SubjectRestriction struct{ *admission.Handler }

var (
	_ admission.ValidationInterface = (*Approval)(nil)
	_ admission.ValidationInterface = (*Signing)(nil)
	_ admission.ValidationInterface = (*SubjectRestriction)(nil)
)

// NewApproval makes the plugin CertificateApproval.
func NewApproval(authz authorizer.Authorizer) *Approval {
	return &Approval{admission.NewHandler(admission.Update), authz}
}

// NewSigning makes the plugin CertificateSigning.
func NewSigning(authz authorizer.Authorizer) *Signing {
	return &Signing{admission.NewHandler(admission.Update), authz}
}

// NewSubjectRestriction makes the plugin CertificateSubjectRestriction.
func NewSubjectRestriction() *SubjectRestriction {
	return &SubjectRestriction{admission.NewHandler(admission.Create)}
}

// Validate implements admission.ValidationInterface. The signer is that of the
// stored request: the one in the body is what the user says.
func (p *Approval) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, "approval") {
		return nil
	}
	old, err := request(a, a.GetOldObject())
	if err != nil {
		return err
	}
	if !mayFor(ctx, p.authz, a.GetUserInfo(), "approve", old.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q", old.Spec.SignerName))
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Signing) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, "status") {
		return nil
	}
	old, err := request(a, a.GetOldObject())
	if err != nil {
		return err
	}
	o, err := request(a, a.GetObject())
	if err != nil {
		return err
	}
	if bytes.Equal(old.Status.Certificate, o.Status.Certificate) && apiequality.Semantic.DeepEqual(old.Status.Conditions, o.Status.Conditions) {
		return nil
	}
	if !mayFor(ctx, p.authz, a.GetUserInfo(), "sign", old.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *SubjectRestriction) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, "") {
		return nil
	}
	o, err := request(a, a.GetObject())
	if err != nil || o.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return err
	}
	asked, err := certificates.ParseRequest(o.Spec.Request)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(asked.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed", certificatesv1.KubeAPIServerClientSignerName, user.SystemPrivilegedGroup))
	}
	return nil
}
