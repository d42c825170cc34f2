// Package api serves axd's HTTP interface: JSON under /v1, problem documents,
// OpenAPI, health and metrics. It knows the state's queries and commands, and
// reaches the rest of the server through Backend.
package api
