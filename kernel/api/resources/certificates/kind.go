package certificates

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"pintle.dev/pintle/kernel/api/resources"
)

// Descriptions of columns that k8s.io/api says otherwise since 0.37.
const (
	signerDoc     = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select on this field using `spec.signerName`."
	requestorDoc  = "Base64-encoded PKCS#10 CSR data"
	durationDoc   = "expirationSeconds is the requested duration of validity of the issued certificate. The certificate signer may issue a certificate with a different validity duration so a client must check the delta between the notBefore and and notAfter fields in the issued certificate to determine the actual duration.\n\nThe v1.22+ in-tree implementations of the well-known Kubernetes signers will honor this field as long as the requested duration is not greater than the maximum duration they will honor per the --cluster-signing-duration CLI flag to the Kubernetes controller manager.\n\nCertificate signers may not honor this field for various reasons:\n\n  1. Old signer that is unaware of the field (such as the in-tree\n     implementations prior to v1.22)\n  2. Signer whose configured maximum is shorter than the requested duration\n  3. Signer whose configured minimum is longer than the requested duration\n\nThe minimum valid value for expirationSeconds is 600, i.e. 10 minutes."
	conditionsDoc = "Conditions applied to the request, such as approval or denial."
)

// signerField can be selected by.
const signerField = "spec.signerName"

// requestStrategy writes into a new request who asks.
type requestStrategy struct {
	resources.Strategy
	rest.ResetFieldsStrategy
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s requestStrategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.Strategy.PrepareForCreate(ctx, obj)
	spec := &obj.(*certificatesv1.CertificateSigningRequest).Spec
	spec.Username, spec.UID, spec.Groups, spec.Extra = "", "", nil, nil
	who, ok := request.UserFrom(ctx)
	if !ok {
		return
	}
	spec.Username, spec.UID, spec.Groups = who.GetName(), who.GetUID(), who.GetGroups()
	if extra := who.GetExtra(); len(extra) > 0 {
		spec.Extra = make(map[string]certificatesv1.ExtraValue, len(extra))
		for k, v := range extra {
			spec.Extra[k] = v
		}
	}
}

// Kinds lists the served kind.
func Kinds() []resources.Kind {
	gvk := certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")
	type csr = certificatesv1.CertificateSigningRequest
	main := resources.Rules[*csr]{
		GVK: gvk, Reset: [][]any{{"spec"}, {"status"}},
		PrepareCreate: func(o *csr) {
			o.Status = certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{}}
		},
		PrepareUpdate:  func(o, old *csr) { o.Spec, o.Status = old.Spec, old.Status },
		Validate:       validateCreate,
		ValidateUpdate: func(o, old *csr) field.ErrorList { return validateUpdate(o, old, changes{}) },
	}.Strategy()
	return []resources.Kind{{
		GVK: gvk, Resource: "certificatesigningrequests", Singular: "certificatesigningrequest", ShortNames: []string{"csr"},
		New:      func() runtime.Object { return &csr{} },
		NewList:  func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
		Strategy: requestStrategy{main, main.(rest.ResetFieldsStrategy)},
		Status: resources.Rules[*csr]{
			GVK: gvk, Reset: [][]any{{"spec"}, {"status", "conditions"}},
			PrepareUpdate: func(o, old *csr) {
				o.Spec = old.Spec
				keepConditions(o, old, certificatesv1.CertificateApproved)
				keepConditions(o, old, certificatesv1.CertificateDenied)
				stamp(o, old)
			},
			ValidateUpdate: func(o, old *csr) field.ErrorList { return validateUpdate(o, old, changes{certificate: true}) },
		}.Strategy(),
		Subresources: map[string]resources.Strategy{"approval": resources.Rules[*csr]{
			GVK: gvk, Reset: [][]any{{"spec"}, {"status", "certificate"}},
			PrepareUpdate: func(o, old *csr) {
				stamp(o, old)
				conditions := o.Status.Conditions
				o.Spec, o.Status = old.Spec, old.Status
				o.Status.Conditions = conditions
			},
			ValidateUpdate: func(o, old *csr) field.ErrorList { return validateUpdate(o, old, changes{approval: true}) },
		}.Strategy()},
		Fields:     func(obj runtime.Object) fields.Set { return fields.Set{signerField: obj.(*csr).Spec.SignerName} },
		FieldNames: []string{signerField},
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(), resources.AgeColumn(),
			resources.StringColumn("SignerName", signerDoc), resources.StringColumn("Requestor", requestorDoc),
			resources.StringColumn("RequestedDuration", durationDoc), resources.StringColumn("Condition", conditionsDoc),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*csr)
			signer, asked := "<none>", "<none>"
			if o.Spec.SignerName != "" {
				signer = o.Spec.SignerName
			}
			if s := o.Spec.ExpirationSeconds; s != nil {
				asked = duration.HumanDuration(time.Duration(*s) * time.Second)
			}
			return []any{o.Name, resources.AgeCell(o.CreationTimestamp), signer, o.Spec.Username, asked, conditionCell(o)}, nil
		},
	}}
}

func conditionCell(o *certificatesv1.CertificateSigningRequest) string {
	out := "Pending"
	if len(conditionsOf(o, certificatesv1.CertificateDenied)) > 0 {
		out = "Denied"
	} else if len(conditionsOf(o, certificatesv1.CertificateApproved)) > 0 {
		out = "Approved"
	}
	if len(conditionsOf(o, certificatesv1.CertificateFailed)) > 0 {
		out += ",Failed"
	}
	if len(o.Status.Certificate) > 0 {
		out += ",Issued"
	}
	return out
}
