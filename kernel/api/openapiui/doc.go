// Package openapiui serves a page below /openapi/ui/ on which a browser shows the API's
// OpenAPI v3 documents, for who may read those.
//
// It owns the page, and Swagger UI (viewer, pinned and fetched by fetch.sh), which is in
// the program's file, compressed: nothing of it is in memory until somebody opens it.
//
// What the documents say is written by whoever may define custom resources, and is shown
// to administrators. So nothing but the files here is run (Content-Security-Policy),
// nothing is asked of other servers, and no request but for documents is sent: trying
// requests out is off, and no token is asked for or kept.
//
// Data passes from the embedded files to the answer. It must not import the rest of the
// API server, which guards the paths as it does /openapi/v3.
package openapiui
