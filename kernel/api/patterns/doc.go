// Package patterns drops what go-restful keeps of each route and does not read again.
//
// It compiles the path of a route to a regular expression. Kubernetes' containers find
// routes by the parts of the path (restful.CurlyRouter), and never by these expressions:
// 6 MB of a kernel that serves all kinds.
//
// Data passes: the API's container, once its routes are installed → LetGo.
//
// It must not import other packages of Pintle.
package patterns
