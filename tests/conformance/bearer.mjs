// Loaded before the suite, which has no option for a token: every request of its process brings one. Nothing else of
// what it sends is touched, and it speaks to the server itself.
import { subscribe } from 'node:diagnostics_channel';

const authorization = `Bearer ${process.env.CONFORMANCE_TOKEN}`;
subscribe('undici:request:create', ({ request }) => request.addHeader('authorization', authorization));
subscribe('http.client.request.created', ({ request }) => request.setHeader('authorization', authorization));
