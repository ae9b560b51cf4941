package certificates

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSignerNames(t *testing.T) {
	for name, faults := range map[string]int{
		"example.com/s": 0, "kubernetes.io/kube-apiserver-client": 0, "a.b/c.d.e": 0,
		"": 1, "s": 1, "example.com/a/b": 1, "com/s": 1, "/s": 2, "example.com/": 1, "Example.com/s": 1, "example.com/S_": 1,
		strings.Repeat("a.", 130) + "b/s": 1,
	} {
		if errs := validateSignerName(name, field.NewPath("spec")); len(errs) != faults {
			t.Errorf("%q: %v, want %d", name, errs, faults)
		}
	}
}

// What the three ways of changing a request may do, and may not.
func TestWaysOfChange(t *testing.T) {
	condition := func(t certificatesv1.RequestConditionType) certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{Type: t, Status: corev1.ConditionTrue}
	}
	with := func(certificate string, conditions ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
		o := &certificatesv1.CertificateSigningRequest{}
		o.Status.Certificate = []byte(certificate)
		for _, c := range conditions {
			o.Status.Conditions = append(o.Status.Conditions, condition(c))
		}
		return o
	}
	const approved, denied, failed = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed
	for _, tt := range []struct {
		what     string
		old, new *certificatesv1.CertificateSigningRequest
		may      changes
		words    string // of the error, "" for none about the status
	}{
		{"approve by approval", with(""), with("", approved), changes{approval: true}, ""},
		{"approve by status", with(""), with("", approved), changes{certificate: true}, `updates may not add a condition of type "Approved"`},
		{"deny by nothing", with(""), with("", denied), changes{}, `updates may not add a condition of type "Denied"`},
		{"take approval back", with("", approved), with(""), changes{approval: true}, `updates may not remove a condition of type "Approved"`},
		{"both", with("", approved), with("", approved, denied), changes{approval: true}, "mutually exclusive"},
		{"fail by status", with(""), with("", failed), changes{certificate: true}, ""},
		{"take failure back", with("", failed), with(""), changes{certificate: true}, `updates may not remove a condition of type "Failed"`},
		{"a certificate by approval", with(""), with("x"), changes{approval: true}, "updates may not set certificate content"},
		{"another certificate", with("x"), with("y"), changes{certificate: true}, "updates may not modify existing certificate content"},
		{"rubbish for a certificate", with(""), with("x"), changes{certificate: true}, "must contain at least one CERTIFICATE PEM block"},
	} {
		var found []string
		for _, err := range validateUpdate(tt.new, tt.old, tt.may) {
			if strings.HasPrefix(err.Field, "status") {
				found = append(found, err.Error())
			}
		}
		if all := strings.Join(found, "\n"); (tt.words == "") != (all == "") || !strings.Contains(all, tt.words) {
			t.Errorf("%s: %q, want %q", tt.what, all, tt.words)
		}
	}
}

// Whatever a client sends as a request or a certificate is an error at worst.
func FuzzPEM(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nA: b\n\nMAA=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := ParseRequest(data); (r == nil) == (err == nil) {
			t.Errorf("%v, %v", r, err)
		}
		_ = signedRequest(data)
		if err := certificateFault(data); err == nil && len(data) > 0 && !strings.Contains(string(data), "BEGIN CERTIFICATE") {
			t.Error("taken for a certificate")
		}
	})
}
